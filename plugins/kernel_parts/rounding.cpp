#include "kernel_parts/rounding.h"

#include <ATen/Functions.h>
#include <c10/core/TensorImpl.h>

#include <string>
#include <utility>
#include <vector>

#include "optrush/error.h"

namespace optrush::fused {
/// These have external linkage: each plugin has a copy of this code, and tensors pass from one plugin to
/// another.
struct OfferedRounding final : c10::BackendMeta {
  OfferedRounding(std::shared_ptr<const RoundingOffer> offer, size_t output, size_t outputs, int64_t version)
      : offer(std::move(offer)), output(output), outputs(outputs), version(version) {}
  std::shared_ptr<const RoundingOffer> offer;  ///< one for each call
  size_t output, outputs;
  int64_t version;
};

struct CarriedColumns final : c10::BackendMeta {
  CarriedColumns(std::shared_ptr<const Rounded> matrix, int64_t first, int64_t version)
      : matrix(std::move(matrix)), first(first), version(version) {}
  std::shared_ptr<const Rounded> matrix;
  int64_t first;  ///< column
  int64_t version;
};

namespace {
template <class Meta>
const Meta* meta_of(const at::Tensor& tensor) {
  return dynamic_cast<const Meta*>(tensor.unsafeGetTensorImpl()->get_backend_meta());
}

void carry(const at::Tensor& tensor, std::shared_ptr<const Rounded> matrix, int64_t first) {
  tensor.unsafeGetTensorImpl()->set_backend_meta(
      c10::make_intrusive<CarriedColumns>(std::move(matrix), first, tensor._version()));
}

bool same_place(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.is_alias_of(b) && a.storage_offset() == b.storage_offset();
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::internal, "a tensor that was written in 8 bits alone " + what);
}
}  // namespace

Rounded new_rounded(const Rounding& rounding, int64_t rows, int64_t columns) {
  const auto options = rounding.scale.past.options();
  Rounded made{.rounding = rounding,
               .values = at::empty({rows, columns}, options.dtype(rounding.type)),
               .scale = at::empty({1, 1}, options)};
  if (rounding.both_ways) made.transposed = at::empty({columns, rows}, options.dtype(rounding.type));
  return made;
}

void offer_rounding(at::TensorList outputs, RoundingOffer offer) {
  const auto shared = std::make_shared<const RoundingOffer>(std::move(offer));
  for (size_t i = 0; i < outputs.size(); ++i)
    outputs[i].unsafeGetTensorImpl()->set_backend_meta(
        c10::make_intrusive<OfferedRounding>(shared, i, outputs.size(), outputs[i]._version()));
}

void withdraw_rounding(const at::Tensor& tensor) {
  if (meta_of<OfferedRounding>(tensor) != nullptr) tensor.unsafeGetTensorImpl()->set_backend_meta(nullptr);
}

std::shared_ptr<const RoundingOffer> offered_rounding(at::TensorList outputs) {
  std::shared_ptr<const RoundingOffer> offer;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto* found = meta_of<OfferedRounding>(outputs[i]);
    const bool fits = found != nullptr && found->version == outputs[i]._version() && found->output == i &&
                      found->outputs == outputs.size() && (i == 0 || found->offer == offer);
    if (!fits) return nullptr;
    offer = found->offer;
  }
  return offer;
}

std::vector<at::Tensor> without_numbers(Rounded rounded, const RoundingOffer& offer, at::IntArrayRef sizes,
                                        int64_t count) {
  const auto matrix = std::make_shared<const Rounded>(std::move(rounded));
  std::vector<at::Tensor> made;
  for (int64_t i = 0; i < count; ++i) {
    made.push_back(offer.unread.expand(sizes));
    carry(made.back(), matrix, i * sizes.back());
  }
  return made;
}

void carry_over(const at::Tensor& from, const at::Tensor& to) {
  const auto* found = meta_of<CarriedColumns>(from);
  if (found != nullptr && found->version == from._version()) carry(to, found->matrix, found->first);
}

std::shared_ptr<const Rounded> carried(at::TensorList side_by_side, const Rounding& wanted) {
  std::shared_ptr<const Rounded> matrix;
  int64_t column = 0, carriers = 0;
  bool whole = true;
  for (const at::Tensor& each : side_by_side) {
    if (const auto* found = meta_of<CarriedColumns>(each); found != nullptr) {
      whole = whole && found->version == each._version() && found->first == column &&
              (matrix == nullptr || found->matrix == matrix);
      matrix = found->matrix;
      ++carriers;
    }
    column += each.size(-1);
  }
  if (matrix == nullptr) return nullptr;
  if (!whole || carriers != std::ssize(side_by_side) || column != matrix->values.size(1))
    refuse("is multiplied without its other columns, or has changed");
  const Rounding& made = matrix->rounding;
  if (made.type != wanted.type || made.both_ways < wanted.both_ways ||
      !same_place(made.scale.past, wanted.scale.past))
    refuse("is multiplied by a linear with another scale");
  return matrix;
}
}  // namespace optrush::fused
