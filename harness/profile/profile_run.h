// A whole profile: cells, each in processes of its own, interleaved over passes, into one file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/profile/profiler.h"

namespace lra {

struct ProfilePlan {
  std::vector<ProfileCell> cells;
  std::string peers;          // the program that measures cells of other packages; see peers.h
  std::filesystem::path out;  // JSONL; what it holds is kept, and what it lacks measured
  std::string device = "cpu";
  int64_t threads = 0;       // 0 = all processors
  int64_t memory_limit = 0;  // bytes of tensors on CPUs; 0 = 80 % of what is free then
  int64_t flush_bytes = 0;   // of a GPU's cache, before each sample; 0 = off
  double seconds = 3;        // of samples a cell, over its passes
  double timeout = 600;      // of a process; 0 = none
  int64_t passes = 3;        // processes a cell; a noisy cell gets up to as many again
  double max_minutes = 0;    // after these, no pass begins but a cell's first; 0 = no end
  uint64_t seed = 0;         // of the order
  bool pin = true;           // threads to processors
  bool again = false;        // drop what the file holds of cells that failed or stayed noisy
};

/// Measures what the file lacks, and returns its records. A pass goes through all cells, length by
/// length, those of one length in an order drawn anew; the file is written after every process, so
/// that whatever ends this one costs one process's samples. Throws Interrupted after Ctrl-C.
std::vector<Profile> run_profile(const ProfilePlan& plan);

/// What a child does with the word that run_profile() gave it: measures, and prints the record.
void run_profile_child(const std::string& word);

/// The largest power of two, at most 65,536, that one call of `cell` as a batch keeps within
/// `memory_limit` bytes, weights and inputs included; 0 where one sample is too much. Tried out in
/// a process of its own.
int64_t largest_batch(const ProfileCell& cell, const ProfilePlan& plan, int64_t memory_limit);

/// The records of a profile's file, none where there is no file; throws Error where it is something
/// else.
std::vector<Profile> read_profile(const std::filesystem::path& file);

}  // namespace lra
