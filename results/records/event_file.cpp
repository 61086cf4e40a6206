// https://github.com/tensorflow/tensorflow: tensorflow/core/lib/io/record_writer.h for the frames,
// core/util/event.proto and core/framework/summary.proto for the messages. Of these only seven
// fields are needed, so that they are written by hand.
#include "results/records/event_file.h"

#include <fmt/format.h>

#include <bit>
#include <boost/crc.hpp>
#include <cmath>

namespace lra {
namespace {

template <class Number>
void put_little(std::string& bytes, Number number) {
  for (size_t i = 0; i < sizeof(number); ++i)
    bytes += static_cast<char>(static_cast<unsigned char>(number >> (8 * i)));
}

void put_varint(std::string& bytes, uint64_t number) {
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(0x80 | (number & 0x7F));
  bytes += static_cast<char>(number);
}

// A field's tag: its number and how its value is stored.
enum class Wire : uint32_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
void put_tag(std::string& message, uint32_t field, Wire wire) {
  put_varint(message, field << 3 | static_cast<uint32_t>(wire));
}

void put_bytes(std::string& message, uint32_t field, std::string_view value) {
  put_tag(message, field, Wire::bytes);
  put_varint(message, value.size());
  message += value;
}

// Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5;
//         SessionLog session_log = 7; }, SessionLog { SessionStatus status = 1; }
constexpr uint64_t kSessionStart = 1;
std::string event(double wall_time, int64_t step) {
  std::string message;
  put_tag(message, 1, Wire::fixed64);
  put_little(message, std::bit_cast<uint64_t>(wall_time));
  put_tag(message, 2, Wire::varint);
  put_varint(message, static_cast<uint64_t>(step));
  return message;
}

// Adds to a Summary { repeated Value value = 1; } a Value { string tag = 1; float simple_value = 2;
// }
void put_scalar(std::string& summary, std::string_view tag, double value) {
  std::string message;
  put_bytes(message, 1, tag);
  put_tag(message, 2, Wire::fixed32);
  put_little(message, std::bit_cast<uint32_t>(static_cast<float>(value)));
  put_bytes(summary, 1, message);
}

double wall_time(const LogLine& line) { return line.time.value_or(line.seconds); }

void put_record(std::string& file, const std::string& message) {
  std::string length;
  put_little(length, static_cast<uint64_t>(message.size()));
  file += length;
  put_little(file, masked_crc32c(length));
  file += message;
  put_little(file, masked_crc32c(message));
}

}  // namespace

uint32_t masked_crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return std::rotr(static_cast<uint32_t>(crc.checksum()), 15) + 0xA282EAD8u;
}

std::string event_record(const LogLine& line) {
  std::string summary;
  put_scalar(summary, line.split == LogSplit::train ? "train/loss" : "dev/loss", line.loss);
  put_scalar(summary, line.split == LogSplit::train ? "train/accuracy" : "dev/accuracy",
             line.accuracy);
  if (line.split == LogSplit::train) put_scalar(summary, "learning_rate", line.learning_rate);
  std::string message = event(wall_time(line), line.step), record;
  put_bytes(message, 5, summary);
  put_record(record, message);
  return record;
}

std::string event_file(std::span<const LogLine> log, std::optional<double> restart) {
  const double begin = restart ? *restart : log.empty() ? 0 : wall_time(log.front());
  std::string file, first = event(begin, 0);
  put_bytes(first, 3, "brain.Event:2");
  put_record(file, first);
  if (restart) {
    std::string session, message = event(begin, 0);
    put_tag(session, 1, Wire::varint);
    put_varint(session, kSessionStart);
    put_bytes(message, 7, session);
    put_record(file, message);
  }
  for (const LogLine& line : log) file += event_record(line);
  return file;
}

std::string event_file_name(double time_of_day) {
  return fmt::format("events.out.tfevents.{:010.0f}.lra", std::floor(time_of_day));
}

}  // namespace lra
