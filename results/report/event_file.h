// A run's log as a TensorBoard event file: TFRecord frames of protocol buffers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "results/records/run_log.h"

namespace lra {

/// CRC-32C (Castagnoli) as TFRecord masks it: rotated right by 15 bits, plus a constant.
uint32_t masked_crc32c(std::string_view bytes);

/// The bytes of an event file with the scalars train/loss, train/accuracy, dev/loss, dev/accuracy
/// and learning_rate at their steps. An event's wall time is the log's seconds, counted from 1970:
/// TensorBoard's relative axis is the time of training, its absolute one means nothing.
std::string event_file(std::span<const LogLine> log);

}  // namespace lra
