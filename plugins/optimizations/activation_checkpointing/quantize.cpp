#include "quantize.h"

#include <ATen/Functions.h>

#include <limits>

#include "origin.h"

namespace optrush::checkpointing {
namespace {
constexpr double kLargestCode = 127, kInfinity = std::numeric_limits<double>::infinity();
constexpr int8_t kMinusInfinity = -128;  ///< code of a score that a mask hides

int64_t blocks_of(int64_t numbers) { return (numbers + Quantize::kBlock - 1) / Quantize::kBlock; }
}  // namespace

/// The numbers of one storage: scales, then codes.
class Quantized {
 public:
  explicit Quantized(const Tensor& all) : type_(all.scalar_type()), count_(all.numel()) {
    const int64_t blocks = blocks_of(count_), padding = blocks * Quantize::kBlock - count_;
    kept_ = at::empty({blocks * kScaleBytes + count_}, all.options().dtype(at::kByte));
    const Tensor numbers =
        (padding > 0 ? at::constant_pad_nd(all, {0, padding}) : all).view({blocks, Quantize::kBlock});
    const Tensor scales = this->scales();
    const auto shown = [&] { return numbers.masked_fill(numbers.eq(-kInfinity), 0); };
    scales.copy_(at::linalg_vector_norm(shown(), kInfinity, {1})).div_(kLargestCode);
    // A block of zeros has scale 0 and codes 0.
    const Tensor divisors = scales.clamp_min(std::numeric_limits<float>::min()).unsqueeze(1);
    codes().copy_((numbers / divisors).round_().clamp_min_(kMinusInfinity).view(-1).narrow(0, 0, count_));
  }

  const Tensor& kept() const { return kept_; }
  /// The decoded storage, until its last saved tensor is freed.
  const c10::Storage& back() {
    if (!back_.defined()) {
      back_ = codes().to(type_);
      const int64_t full = count_ / Quantize::kBlock, whole = full * Quantize::kBlock;
      if (full > 0)
        back_.narrow(0, 0, whole)
            .view({full, Quantize::kBlock})
            .mul_(scales().narrow(0, 0, full).unsqueeze(1));
      if (whole < count_) back_.narrow(0, whole, count_ - whole).mul_(scales().narrow(0, full, 1));
      back_.masked_fill_(codes().eq(kMinusInfinity), -kInfinity);
    }
    return back_.storage();
  }

 private:
  static constexpr int64_t kScaleBytes = sizeof(float);
  Tensor scales() const { return kept_.narrow(0, 0, blocks_of(count_) * kScaleBytes).view(at::kFloat); }
  Tensor codes() const { return kept_.narrow(0, blocks_of(count_) * kScaleBytes, count_).view(at::kChar); }

  at::ScalarType type_;
  int64_t count_;
  Tensor kept_, back_;
};

std::shared_ptr<Quantized> Quantize::quantized(const Tensor& tensor) {
  std::erase_if(known_, [](const Entry& entry) { return entry.quantized.expired(); });
  const c10::Storage& storage = tensor.storage();
  for (const Entry& known : known_)
    if (known.type == tensor.scalar_type() && known.storage.lock().get() == storage.unsafeGetStorageImpl())
      return known.quantized.lock();
  const auto count = static_cast<int64_t>(storage.nbytes() / tensor.element_size());
  const Tensor all = at::empty({0}, tensor.options().requires_grad(false)).set_(storage, 0, {count}, {1});
  auto made = std::make_shared<Quantized>(all);
  known_.push_back({c10::weak_intrusive_ptr(storage.getWeakStorageImpl()), tensor.scalar_type(), made});
  return made;
}

PackedTensor Quantize::pack(const Tensor& tensor, int64_t numbers) {
  const auto as_it_is = [](const Tensor& kept) { return kept; };
  if (!tensor.has_storage() || !tensor.is_floating_point() || tensor.numel() * kSmall < numbers ||
      lives_anyway(tensor))
    return {tensor, as_it_is};
  auto quantized = this->quantized(tensor);
  const Tensor kept = quantized->kept();
  return {kept,
          [quantized = std::move(quantized), sizes = tensor.sizes().vec(), strides = tensor.strides().vec(),
           offset = tensor.storage_offset(), options = tensor.options().requires_grad(false)](const Tensor&) {
            return at::empty({0}, options).set_(quantized->back(), offset, sizes, strides);
          }};
}
}  // namespace optrush::checkpointing
