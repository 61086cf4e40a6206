// Depthwise convolution over the positions of a sequence, one kernel a head, as matrix products.
#pragma once

#include "attention_variants/torch.h"

namespace lra::ops::reference {

/// out[b,h,n,:] = sum over j of weight[h,0,j,0] * x[b,h,n + j - (K-1)/2,:], zero outside: a "same"
/// convolution, for odd and even K. x [B,H,N,d], weight [H,1,K,1] -> [B,H,N,d] in the type of x.
/// Differentiable once, in x and weight.
torch::Tensor depthwise_conv(const torch::Tensor& x, const torch::Tensor& weight);

/// Bytes that depthwise_conv() holds above x [B,H,N,d] without gradients, the result among them: it
/// works on whole blocks of positions, padded by the kernel's width.
int64_t depthwise_conv_bytes(int64_t batch, int64_t heads, int64_t length, int64_t width,
                             int64_t kernel, int64_t element_size);

}  // namespace lra::ops::reference
