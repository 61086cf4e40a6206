#include "attention_variants/base/json_fault.h"

#include <set>
#include <vector>

#include "attention_variants/base/fields.h"

namespace lra {
namespace {

// Stops at the first fault: every event answers whether to go on.
class FaultFinder : public nlohmann::json_sax<json> {
 public:
  explicit FaultFinder(int most_depth) : most_depth_(most_depth) {}
  JsonFault fault;

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(size_t) override { return open(); }
  bool start_array(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return value();
    fault = {.kind = JsonFault::Kind::key_twice, .key = name};
    return false;
  }
  bool parse_error(size_t, const std::string&, const json::exception&) override { return false; }

 private:
  bool value() {
    if (static_cast<int>(keys_.size()) <= most_depth_) return true;
    fault = {.kind = JsonFault::Kind::too_deep, .key = ""};
    return false;
  }
  bool open() {
    const bool goes_on = value();
    keys_.emplace_back();
    return goes_on;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  int most_depth_;
  std::vector<std::set<std::string>> keys_;  // of what is open; none in an array
};

}  // namespace

JsonFault json_fault(std::string_view text, int most_depth) {
  FaultFinder finder(most_depth);
  json::sax_parse(text.begin(), text.end(), &finder);
  return finder.fault;
}

}  // namespace lra
