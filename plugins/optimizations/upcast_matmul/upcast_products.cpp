#include "upcast_products.h"

#include <ATen/CPUFunctions.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "kernel_parts/cpu/convert.h"
#include "kernel_parts/tensors.h"

namespace optrush::upcast_matmul {
namespace {
/// A tile of the result has at most kMostSide rows and columns, and its sums advance kInner products at once.
/// So an element is converted once for 512 products.
constexpr int64_t kMostSide = 512, kLeastSide = 128, kInner = 512;
constexpr int64_t kLeastSize = 32;
constexpr double kLeastFlops = 4e6;

/// The workspaces of the UpcastProducts that live; the last one is used. UpcastProducts of several host
/// threads take turns.
struct Shared {
  std::mutex mutex;
  std::vector<Tensor> workspaces;
};
Shared& shared() {
  static Shared one;
  return one;
}

/// The block of x at (row, column) in fp32, in the memory order of x.
Tensor block_of(const Tensor& x, int64_t row, int64_t column, int64_t rows, int64_t columns, float* memory) {
  const bool by_rows = x.stride(1) == 1;
  const int64_t outer = by_rows ? rows : columns, inner = by_rows ? columns : rows,
                stride = x.stride(by_rows ? 0 : 1);
  auto* const data = static_cast<char*>(const_cast<void*>(x.const_data_ptr())) +
                     (row * x.stride(0) + column * x.stride(1)) * x.element_size();
  fused::widened({fused::type_of(x, "upcast_matmul"), data, stride}, outer, inner, memory);
  const Tensor block = at::from_blob(memory, {outer, inner}, at::kFloat);
  return by_rows ? block : block.t();
}

struct Tiles {
  int64_t rows, columns, side_m = kMostSide, side_n = kMostSide;
  int64_t down() const { return (rows + side_m - 1) / side_m; }
  int64_t across() const { return (columns + side_n - 1) / side_n; }
  int64_t count() const { return down() * across(); }
};

/// Smaller tiles if there are too few for all threads.
Tiles tiles_of(int64_t rows, int64_t columns) {
  Tiles tiles{rows, columns};
  while (tiles.count() < 2 * at::get_num_threads() && std::max(tiles.side_m, tiles.side_n) > kLeastSide)
    (tiles.side_m >= tiles.side_n ? tiles.side_m : tiles.side_n) /= 2;
  return tiles;
}
}  // namespace

int64_t workspace_bytes() {
  return static_cast<int64_t>(sizeof(float)) * (2 * kMostSide * kInner + kMostSide * kMostSide);
}

bool Kernels::takes(const Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  return (type == at::kBFloat16 || type == at::kHalf) && x.dim() == 2 && x.is_cpu() &&
         x.layout() == at::kStrided && dense_in_one_order(x) && !x.is_conj() && !x.is_neg();
}

bool Kernels::multiplies(const Tensor& a, const Tensor& b) {
  if (!takes(a) || !takes(b) || a.scalar_type() != b.scalar_type() || at::in_parallel_region()) return false;
  const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  return b.size(0) == k && std::min({m, n, k}) >= kLeastSize &&
         2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) >= kLeastFlops;
}

void Kernels::multiply(const Tensor& a, const Tensor& b, const Tensor& out, float beta, float alpha) {
  const std::lock_guard lock(shared().mutex);
  const Tensor& workspace = shared().workspaces.back();
  TORCH_INTERNAL_ASSERT(workspace.size(0) >= at::get_num_threads());
  const Tiles tiles = tiles_of(a.size(0), b.size(1));
  const int64_t inner = a.size(1);
  auto* const memory = reinterpret_cast<float*>(workspace.data_ptr<uint8_t>());
  at::parallel_for(0, tiles.count(), 1, [&](int64_t first, int64_t last) {
    const at::NoGradGuard no_grad;
    float* const for_a = memory + at::get_thread_num() * workspace.stride(0) / int64_t{sizeof(float)};
    float *const for_b = for_a + kMostSide * kInner, *const for_sums = for_b + kMostSide * kInner;
    for (int64_t i = first; i < last; ++i) {
      const int64_t row = i / tiles.across() * tiles.side_m, column = i % tiles.across() * tiles.side_n;
      const int64_t m = std::min(tiles.side_m, tiles.rows - row),
                    n = std::min(tiles.side_n, tiles.columns - column);
      Tensor sums = at::from_blob(for_sums, {m, n}, at::kFloat);
      for (int64_t at_inner = 0; at_inner < inner; at_inner += kInner) {
        const int64_t k = std::min(kInner, inner - at_inner);
        const Tensor left = block_of(a, row, at_inner, m, k, for_a),
                     right = block_of(b, at_inner, column, k, n, for_b);
        at_inner == 0 ? at::cpu::mm_out(sums, left, right) : at::cpu::addmm_(sums, left, right);
      }
      auto* const to =
          static_cast<char*>(out.data_ptr()) + (row * out.stride(0) + column) * out.element_size();
      fused::narrowed(for_sums, m, n, alpha, beta, {fused::type_of(out, "upcast_matmul"), to, out.stride(0)});
    }
  });
}

UpcastProducts::UpcastProducts(const Tensor& workspace) : workspace_(workspace) {
  const std::lock_guard lock(shared().mutex);
  shared().workspaces.push_back(workspace);
}

UpcastProducts::~UpcastProducts() {
  const std::lock_guard lock(shared().mutex);
  auto& all = shared().workspaces;
  all.erase(std::ranges::find_if(all, [&](const Tensor& each) { return each.is_same(workspace_); }));
}
}  // namespace optrush::upcast_matmul
