#include "harness/where/op_traits.h"

#include <algorithm>
#include <unordered_map>

namespace lra::where {
namespace {

struct OpList {
  OpTraits traits;
  std::string_view words;  // LibTorch's without "aten::"
};

constexpr std::string_view kAten = "aten::";

constexpr OpList kOpLists[] = {
    {{WorkKind::products, Account::product}, "mm bmm"},
    {{WorkKind::products, Account::sum}, "addmm baddbmm"},
    {{WorkKind::products, Account::own},
     "lra::add_projected lra::feed_forward lra::linear lra::masked_linear lra::project_length"},
    {{WorkKind::attention, Account::own},
     "lra::block_sparse_attention lra::diagonal_scan lra::landmark_attention "
     "lra::linear_attention lra::long_convolution lra::lsh_attention lra::softmax_attention"},
    {{WorkKind::attention, Account::none},
     "_scaled_dot_product_flash_attention_for_cpu "
     "_scaled_dot_product_flash_attention_for_cpu_backward _scaled_dot_product_flash_attention "
     "_scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention "
     "_scaled_dot_product_efficient_attention_backward _scaled_dot_product_cudnn_attention "
     "_scaled_dot_product_cudnn_attention_backward _flash_attention_forward "
     "_flash_attention_backward _efficient_attention_forward _efficient_attention_backward"},
    {{WorkKind::rows, Account::own},
     "lra::add_dropped_out lra::cross_entropy lra::dropout lra::embed lra::gelu lra::layer_norm "
     "lra::layer_norm_mean lra::sigmoid_gate"},
    {{WorkKind::rows, Account::moved},
     "_log_softmax _log_softmax_backward_data _softmax _softmax_backward_data add add_ amax "
     "bernoulli_ clamp clamp_min cos cumsum div div_ elu elu_backward embedding_dense_backward exp "
     "gelu gelu_backward glu glu_backward log masked_fill masked_fill_ mean mul mul_ "
     "native_batch_norm native_batch_norm_backward native_dropout native_dropout_backward "
     "native_layer_norm native_layer_norm_backward neg nll_loss_backward nll_loss_forward pow relu "
     "rsqrt sigmoid sigmoid_backward silu silu_backward sin sqrt sub sub_ sum tanh tanh_backward "
     "threshold_backward where"},
    // How much of a table these read is in their indices.
    {{WorkKind::rows, Account::none},
     "embedding gather index index_add_ index_put_ index_select scatter_add_"},
    {{WorkKind::copies, Account::moved}, "cat copy_ fill_ flip zero_"},
    // These hand their work on, or have none.
    {{WorkKind::copies, Account::none},
     "_to_copy clone constant_pad_nd contiguous full ones ones_like repeat select_backward "
     "slice_backward stack to zeros zeros_like"},
    {{WorkKind::scratch, Account::none},
     "empty empty_like empty_permuted empty_strided new_empty resize_"},
    {{WorkKind::optimizer, Account::moved}, "_fused_adam_ _fused_adamw_"},
};

using TraitsByName = std::unordered_map<std::string_view, OpTraits>;

TraitsByName listed_traits() {
  TraitsByName traits;
  for (const OpList& list : kOpLists) {
    for (std::string_view rest = list.words; !rest.empty();) {
      const size_t end = std::min(rest.find(' '), rest.size());
      traits.emplace(rest.substr(0, end), list.traits);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return traits;
}

}  // namespace

OpTraits traits_of(std::string_view name) {
  static const TraitsByName known = listed_traits();
  if (name.starts_with(kAten)) name.remove_prefix(kAten.size());
  const auto found = known.find(name);
  return found == known.end() ? OpTraits{} : found->second;
}

}  // namespace lra::where
