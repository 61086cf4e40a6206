#pragma once

// LibTorch as far as this project uses it. <torch/torch.h> leaves so many templates to be
// instantiated at the end of every file that each would compile two seconds longer.
#include <torch/autograd.h>
#include <torch/cuda.h>
#include <torch/fft.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>
#include <torch/utils.h>
