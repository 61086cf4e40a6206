#include "lra/model/blocks/block.h"

#include "lra/model/blocks/composed_block.h"
#include "lra/model/blocks/gated_block.h"
#include "lra/model/blocks/transformer_block.h"

namespace lra {

std::unique_ptr<Block> make_block(const ModelOptions& options,
                                  std::shared_ptr<Attention> attention) {
  const bool fused =
      options.norm_kind == NormKind::layer && options.dropout_kind == DropoutKind::plain;
  switch (options.block) {
    case BlockKind::transformer:
      if (fused) return std::make_unique<TransformerBlock>(options, std::move(attention));
      return std::make_unique<ComposedBlock>(options, std::move(attention));
    case BlockKind::mega:
      return std::make_unique<ComposedBlock>(options, std::move(attention));
    case BlockKind::s4:
    case BlockKind::s5:
      return std::make_unique<GatedBlock>(options, std::move(attention));
  }
  return nullptr;
}

}  // namespace lra
