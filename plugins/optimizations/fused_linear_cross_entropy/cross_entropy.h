#pragma once
#include <cstdint>
#include <string>

#include "kernel_parts/type.h"
#include "optrush/gpu_kernel.h"

/// Softmax, cross entropy and gradient of rows of logits in one kernel. Arguments are plain pointers, so that
/// the file of vector code does not include torch.
namespace optrush::fused {
inline constexpr int64_t kIgnored = -100;

/// Computes the cross entropy of each row against its label. If the gradient is requested, it replaces the
/// row: (softmax - one-hot) factor. If the label is kIgnored, both are 0. Reads each logit twice, the second
/// time to write its gradient. Running maximum and sum: arXiv:1805.02867. With a soft cap, `logits` are the
/// values before the cap, and the gradient is with respect to them.
struct CrossEntropy {
  Type type;
  void* logits;           ///< (rows, width), `stride` numbers from row to row
  const int64_t* labels;  ///< (rows)
  void* losses;           ///< (rows), in the type of the arithmetic: fp64 if the logits are, otherwise fp32
  int64_t rows, width, stride;
  bool gradient;
  double soft_cap = 0;             ///< a logit counts as soft_cap tanh(logit / soft_cap); 0: no cap
  const double* factor = nullptr;  ///< of the gradient, one number; null: 1
};

/// Numbers in place, and two numbers in the type of their arithmetic.
struct Rescale {
  Type type;
  void* numbers;
  const void* gradient;
  const double* factor;
  int64_t count;
};

namespace cpu {
void cross_entropy(const CrossEntropy&, int64_t begin_row, int64_t end_row);
}  // namespace cpu

namespace gpu {
/// On the current stream of the current device. Always the same sums, so always the same bits.
void cross_entropy(const CrossEntropy&);

/// Multiplies the numbers by gradient / factor. If the two are equal, one launch reads only them.
void rescale(const Rescale&);

const GpuProgram& rescale_program();
std::string rescale_name(Type, int64_t lanes);

/// Threads of a block, and blocks of a multiprocessor that the registers of a thread leave room for.
struct BlockShape {
  int64_t threads, blocks;
};
/// Blocks of 512 threads, two or three on a multiprocessor, would load while others reduce. But more rows
/// would be between their two reads: 264 rows of 128,256 logits in bf16 are 68 MB, and an H100's L2 cache has
/// 50. Hardware counters decide.
inline constexpr BlockShape kBlockShape{.threads = 1024, .blocks = 1};

const GpuProgram& cross_entropy_program();
/// `lanes` numbers a load; above 1 a row may be followed by up to lanes - 1 numbers that do not count.
std::string cross_entropy_name(Type, int64_t lanes, bool gradient, bool capped, BlockShape = kBlockShape);
}  // namespace gpu
}  // namespace optrush::fused
