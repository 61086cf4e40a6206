#include "attention_variants/base/enum_names.h"

#include <gtest/gtest.h>

#include "attention_variants/base/fields.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

enum class Season { spring, summer, autumn };
constexpr auto names(Season) { return std::array{"spring", "summer", "autumn"}; }

struct Trip {
  Season season = Season::summer;
  template <class Fields>
  void fields(Fields& f) {
    f("season", season);
  }
};

struct WarmTrip {
  Season season = Season::summer;
  template <class Fields>
  void fields(Fields& f) {
    f("season", season, one_of({"spring", "summer"}));
  }
};

template <class Options>
std::string refusal(const json& value) {
  return error_text<UsageError>([&] {
    Options options;
    read_fields(value, options, "trip");
  });
}

TEST(EnumNames, FieldsHoldTheWord) {
  Trip trip;
  read_fields({{"season", "autumn"}}, trip, "trip");
  EXPECT_EQ(trip.season, Season::autumn);
  EXPECT_EQ(write_fields(trip), json({{"season", "autumn"}}));
  EXPECT_EQ(json(Season::spring), "spring");
  EXPECT_EQ(all_values<Season>(),
            (std::vector<Season>{Season::spring, Season::summer, Season::autumn}));
}

TEST(EnumNames, AnUnknownWordIsRefusedAsOfOneOf) {
  const std::string expected =
      R"(trip: season should be one of spring, summer, autumn, not "winter")";
  EXPECT_EQ(refusal<Trip>({{"season", "winter"}}), expected);
  EXPECT_EQ(refusal<Trip>({{"season", 1}}),
            "trip: season should be one of spring, summer, autumn, not 1");
  EXPECT_EQ(refusal<WarmTrip>({{"season", "autumn"}}),
            R"(trip: season should be one of spring, summer, not "autumn")");
}

}  // namespace
}  // namespace lra
