// The errors of this project. Libraries throw them; only main() prints them and chooses the exit
// status.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lra {

/// Something went wrong that the user can act on. The message is one line: what, where, what to do.
/// Exit status 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The command, an option, a name or a configuration is wrong; found before any work. Exit
/// status 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// A variant that cannot take this length, shape or device; thrown by its constructor, attend() or
/// forward(). In a record it is the status "unsupported".
class Unsupported : public Error {
 public:
  using Error::Error;
};

/// The name of `valid` closest to `name` by edit distance, or "" where none is near (more than a
/// third of its letters off).
std::string nearest_name(std::string_view name, const std::vector<std::string>& valid);

/// A UsageError such as: unknown attention 'nystrm'; did you mean 'nystrom'? Valid: nystrom,
/// standard. `what` is the kind of thing ("attention"), `where` an optional place ("protocol file
/// p.json").
UsageError unknown_name(std::string_view what, std::string_view name,
                        const std::vector<std::string>& valid, std::string_view where = "");

/// The first line of an error's message (LibTorch appends a C++ stack to its own), escaped for a
/// terminal; what the file system refuses is put into words.
std::string first_line(const std::exception& error);

}  // namespace lra
