// What the lines of a protocol's `follows` and `choices` are of.
#pragma once

#include <string>
#include <vector>

namespace lra {

/// What a choice has in it that says of its tasks that no attention has settings tuned for it.
inline constexpr const char* kUntuned = "without tuning by variant";

/// Empty: of all tasks, of all attentions.
struct ChoiceSubject {
  std::vector<std::string> tasks, attentions;
};

/// Of "sinkhorn on text, image: mean pooling", "text, image: ..." or "sinkhorn, local: ...": the
/// names before the first colon, where all of them are known; else nothing.
ChoiceSubject choice_subject(const std::string& line);

}  // namespace lra
