// TensorBoard's event files; tests/checks/tensorboard reads them back with the package
// itself.
#include "results/records/event_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

namespace lra {
namespace {

uint64_t little(std::string_view bytes, size_t at, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i)
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes.at(at + i))) << (8 * i);
  return value;
}

// The messages of a file, both checksums of each compared.
std::vector<std::string> messages(const std::string& file) {
  std::vector<std::string> all;
  for (size_t at = 0; at < file.size();) {
    const auto length = static_cast<size_t>(little(file, at, 8));
    EXPECT_EQ(little(file, at + 8, 4), masked_crc32c(file.substr(at, 8)));
    all.push_back(file.substr(at + 12, length));
    EXPECT_EQ(little(file, at + 12 + length, 4), masked_crc32c(all.back()));
    at += 16 + length;
  }
  return all;
}

TEST(EventFile, ChecksumsAreTheCastagnoliOnes) {
  // RFC 3720, B.4: crc32c of 32 bytes of zero is 0x8A9136AA; of "123456789" it is 0xE3069283.
  const auto mask = [](uint32_t crc) { return std::rotr(crc, 15) + 0xA282EAD8u; };
  EXPECT_EQ(masked_crc32c(std::string(32, '\0')), mask(0x8A9136AA));
  EXPECT_EQ(masked_crc32c("123456789"), mask(0xE3069283));
}

TEST(EventFile, HoldsAVersionAndAnEventALine) {
  const std::vector<LogLine> log{{.step = 300,
                                  .split = LogSplit::train,
                                  .loss = 2.5,
                                  .accuracy = 0.25,
                                  .learning_rate = 0.5,
                                  .seconds = 1},
                                 {.step = 300,
                                  .split = LogSplit::dev,
                                  .loss = 1.5,
                                  .accuracy = 0.5,
                                  .learning_rate = 0.5,
                                  .seconds = 2}};
  const auto all = messages(event_file(log));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(
      all[0].ends_with("\x1a\x0d"
                       "brain.Event:2"));
  // wall_time 1.0, step 300, and a summary of 64 bytes: three values, tag and float each.
  const auto bytes = [](const auto& literal) { return std::string(literal, sizeof(literal) - 1); };
  EXPECT_EQ(all[1], bytes("\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x10\xac\x02\x2a\x40") +
                        bytes("\x0a\x11\x0a\x0a"
                              "train/loss"
                              "\x15\x00\x00\x20\x40") +
                        bytes("\x0a\x15\x0a\x0e"
                              "train/accuracy"
                              "\x15\x00\x00\x80\x3e") +
                        bytes("\x0a\x14\x0a\x0d"
                              "learning_rate"
                              "\x15\x00\x00\x00\x3f"));
  EXPECT_NE(all[2].find("dev/accuracy"), std::string::npos);
  EXPECT_EQ(all[2].find("learning_rate"), std::string::npos);
}

TEST(EventFile, KeepsTheTimeOfDayOfALine) {
  const LogLine line{.step = 3, .seconds = 2, .time = 1.7e9 + 0.25};
  const auto all = messages(event_file(std::vector{line}));
  ASSERT_EQ(all.size(), 2u);
  for (const std::string& message : all)
    EXPECT_EQ(std::bit_cast<double>(little(message, 1, 8)), 1.7e9 + 0.25);
  EXPECT_EQ(all[1], messages(event_record(line)).at(0));
}

TEST(EventFile, ARestartMakesReadersForgetEarlierFiles) {
  const auto all = messages(event_file({}, /*restart=*/1.7e9));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(std::bit_cast<double>(little(all[1], 1, 8)), 1.7e9);
  // Step 0, and field 7, SessionLog, of two bytes: field 1, status, is 1, START.
  EXPECT_EQ(all[1].substr(9), std::string("\x10\x00\x3a\x02\x08\x01", 6));
  EXPECT_EQ(event_file_name(1.7e9 + 0.5), "events.out.tfevents.1700000000.lra");
}

TEST(EventFile, OfAnEmptyLogHoldsTheVersionAlone) {
  EXPECT_EQ(messages(event_file({})).size(), 1u);
}

}  // namespace
}  // namespace lra
