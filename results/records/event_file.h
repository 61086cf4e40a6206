// A run's log as a TensorBoard event file: TFRecord frames of protocol buffers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "results/records/run_log.h"

namespace lra {

/// CRC-32C (Castagnoli) as TFRecord masks it: rotated right by 15 bits, plus a constant.
uint32_t masked_crc32c(std::string_view bytes);

/// The bytes of an event file with the scalars train/loss, train/accuracy, dev/loss, dev/accuracy
/// and learning_rate at their steps. An event's wall time is that of its line; of lines from before
/// they had one, the seconds of training, counted from 1970. `restart`: a time of day at which the
/// reader forgets what files before this one said.
std::string event_file(std::span<const LogLine> log, std::optional<double> restart = {});

/// What a line adds to such a file.
std::string event_record(const LogLine& line);

/// The name of a file begun at that time of day: later ones sort behind it.
std::string event_file_name(double time_of_day);

}  // namespace lra
