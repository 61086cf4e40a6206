// ListOps: LRA's distribution of trees, drawn in parallel and kept in order. About 12 trees are
// drawn for one that is kept.
#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "lra/data/thread_loop.h"
#include "lra/tasks/listops/listops.h"

namespace lra::listops {
namespace {

constexpr uint64_t kChunk = 4096;  // candidates drawn at a time

// Adds a subtree whose root stands at `depth`. False as soon as the tree is too long: it would be
// refused whatever follows, and its random stream is its own, so stopping early changes nothing of
// the others.
bool grow(CounterRandom& random, const TreeOptions& options, uint32_t leaf_from, int64_t depth,
          int64_t& length, std::vector<uint16_t>& out) {
  if (depth >= options.max_depth || random.bits() >= leaf_from) {
    out.push_back(static_cast<uint16_t>(kZero + random.below(10)));
    return ++length < options.max_length;
  }
  length += 2;
  const uint32_t arguments = 2 + random.below(static_cast<uint32_t>(options.max_args - 1));
  out.push_back(options.operators[random.below(4)]);
  for (uint32_t i = 0; i < arguments; ++i) {
    if (!grow(random, options, leaf_from, depth + 1, length, out)) return false;
  }
  out.push_back(kClose);
  return true;
}

struct Chunk {
  std::vector<uint16_t> tokens;  // of all kept trees
  std::vector<size_t> ends;
  std::vector<int64_t> values;
};

Chunk draw_chunk(const GenerateOptions& options, uint64_t chunk) {
  Chunk result;
  std::vector<uint16_t> tree;
  for (uint64_t i = chunk * kChunk; i < (chunk + 1) * kChunk; ++i) {
    CounterRandom random(options.seed, i);
    if (!draw_tree(random, options.tree, tree)) continue;
    result.tokens.insert(result.tokens.end(), tree.begin(), tree.end());
    result.ends.push_back(result.tokens.size());
    result.values.push_back(evaluate(tree));
  }
  return result;
}

}  // namespace

bool draw_tree(CounterRandom& random, const TreeOptions& options, std::vector<uint16_t>& out) {
  out.clear();
  int64_t length = 0;
  const auto leaf_from = static_cast<uint32_t>(options.operator_chance * 4294967296.0);
  return grow(random, options, leaf_from, /*depth=*/1, length, out) && length > options.min_length;
}

void generate(const GenerateOptions& options,
              const std::function<void(std::span<const uint16_t>, int64_t)>& accept) {
  const size_t threads = thread_count(options.threads);
  // How many chunks are drawn at once decides what is drawn in vain, never what is kept.
  std::vector<Chunk> chunks(std::min<size_t>(8 * threads, 256));
  std::unordered_set<std::string> seen;  // trees, a byte a token
  int64_t accepted = 0;
  uint64_t barren = 0;  // chunks since the last accepted tree
  for (uint64_t first = 0; accepted < options.count; first += chunks.size()) {
    parallel_for(chunks.size(), threads, [&](size_t i) {
      if (options.stop == nullptr || !*options.stop) chunks[i] = draw_chunk(options, first + i);
    });
    if (options.stop != nullptr && *options.stop) {
      throw Error("stopped while generating ListOps; nothing was written");
    }
    for (const Chunk& chunk : chunks) {
      // Of each chunk, so that it does not depend on how many are drawn at once.
      if (++barren > 2000 && accepted < options.count) {
        throw Error("found only " + std::to_string(accepted) + " of " +
                    std::to_string(options.count) + " distinct ListOps expressions of more than " +
                    std::to_string(options.tree.min_length) + " and fewer than " +
                    std::to_string(options.tree.max_length) +
                    " tokens; widen --min-length and --max-length or ask for fewer");
      }
      for (size_t i = 0, begin = 0; i < chunk.ends.size() && accepted < options.count;
           begin = chunk.ends[i++]) {
        const std::span tree = std::span(chunk.tokens).subspan(begin, chunk.ends[i] - begin);
        if (!seen.emplace(tree.begin(), tree.end()).second) continue;
        accept(tree, chunk.values[i]);
        ++accepted;
        barren = 0;
      }
    }
    if (options.progress) options.progress(accepted);
  }
}

}  // namespace lra::listops
