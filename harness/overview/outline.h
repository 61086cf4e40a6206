// What a protocol says, laid out by task and attention.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/overview/protocol_words.h"

namespace lra {

/// `first` and the words of `text` after it, in lines of at most 100 columns; those after the first
/// line begin with as many spaces as `first` is wide.
std::string hanging(const std::string& first, const std::string& text);

/// Lines by task and attention, of which "" stands for all.
class Outline {
 public:
  enum class Order { notes_first, notes_last };
  using Line = std::pair<std::string, std::string>;  // what it is of, what it says
  using Lines = std::vector<Line>;

  Outline(std::vector<std::string> tasks, Order order) : tasks_(std::move(tasks)), order_(order) {}

  Lines& at(const std::string& task, const std::string& attention) {
    return lines_[{task, attention}];
  }

  /// What all tasks say of an attention stands once, under all tasks.
  void join_tasks();

  /// A line of `follows` or `choices`, where its subject is shown.
  void note(const std::string& kind, const std::string& text, const ProtocolPart& part);

  /// `print` makes text of the lines of one place.
  std::string text(std::string (*print)(const Lines&, const std::string& attention)) const;

 private:
  using Place = std::pair<std::string, std::string>;  // task, attention
  using Places = std::map<Place, Lines>;

  static Lines of(const Places& places, const std::string& task, const std::string& attention);

  std::vector<std::string> tasks_;
  Order order_;
  Places lines_, notes_;
};

}  // namespace lra
