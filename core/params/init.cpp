#include "params/init.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/util/accumulate.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <new>

#include "base/counter_random.h"
#include "optrush/advanced/initial_value.h"

namespace optrush {
namespace {
/// FNV-1a hash of seed and name: a parameter's stream does not depend on its position.
uint64_t stream(uint64_t seed, const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325ULL ^ (seed * 0x9e3779b97f4a7c15ULL);
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  return hash;
}

/// Elements that a thread draws at a time. Another value changes the initial values of every model.
constexpr int64_t kBlock = int64_t{1} << 20;

/// Draws a tensor in blocks, each from its own random stream, so that the values do not depend on the number
/// of threads. The first block uses the stream of the given generator.
template <class Draw>
void draw_in_blocks(Tensor& tensor, const at::Generator& generator, const Draw& draw) {
  const uint64_t seed = generator.current_seed();
  const Tensor flat = tensor.view(-1);
  const int64_t size = flat.numel(), blocks = (size + kBlock - 1) / kBlock;
  at::parallel_for(0, blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const auto number = static_cast<uint64_t>(block);
      const auto own = at::make_generator<at::CPUGeneratorImpl>(number == 0 ? seed : random_at(seed, number));
      draw(flat.slice(0, block * kBlock, std::min(size, (block + 1) * kBlock)), own);
    }
  });
}
}  // namespace

at::ScalarType drawn_type(const Param& param) {
  return param.dtype == at::kDouble ? at::kDouble : at::kFloat;
}

Initializer constant(double value) {
  return [value](Tensor& tensor, at::Generator&) { tensor.fill_(value); };
}

Initializer normal(double standard_deviation) {
  return [standard_deviation](Tensor& tensor, at::Generator& generator) {
    draw_in_blocks(tensor, generator, [&](const Tensor& block, const at::Generator& own) {
      block.normal_(0, standard_deviation, own);
    });
  };
}

Initializer uniform_by_fan_in() {
  return [](Tensor& tensor, at::Generator& generator) {
    const double bound = 1 / std::sqrt(static_cast<double>(tensor.size(-1)));
    draw_in_blocks(tensor, generator, [&](const Tensor& block, const at::Generator& own) {
      block.uniform_(-bound, bound, own);
    });
  };
}

Tensor no_value(const Param& param) {
  const at::TensorOptions options(drawn_type(param));
  const size_t bytes = std::max<size_t>(
      1, static_cast<size_t>(c10::multiply_integers(param.shape)) * options.dtype().itemsize());
  void* zeros =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (zeros == MAP_FAILED) throw std::bad_alloc();
  madvise(zeros, bytes, MADV_HUGEPAGE);  // one page fault per 2 MiB
  return at::from_blob(
      zeros, param.shape, [bytes](void* memory) { munmap(memory, bytes); }, options);
}

Tensor initial_value(const Param& param, uint64_t seed) {
  if (const auto* computed = param.init.target<FromParameter>()) {
    Param source = *computed->source;
    source.dtype = param.dtype;
    return computed->make(initial_value(source, seed));
  }
  Tensor value = at::empty(param.shape, drawn_type(param));
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(stream(seed, param.name));
  param.init(value, generator);
  return value;
}
}  // namespace optrush
