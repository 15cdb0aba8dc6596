#include "joined_memory/joined_gradients.h"

#include <ATen/Functions.h>
#include <c10/core/TensorImpl.h>

#include <memory>
#include <utility>
#include <vector>

namespace optrush {
/// Has external linkage: each plugin has a copy of this code, and tensors pass from one plugin to another.
struct JoinedColumns {
  std::vector<int64_t> sizes;  ///< of all columns
  std::vector<int64_t> first;  ///< column of each output, and the end
  at::TensorOptions options;
  Tensor all;  ///< from the first request until they are joined

  Tensor of(size_t output) const { return all.narrow(-1, first[output], first[output + 1] - first[output]); }
};

struct OfferedPlace final : c10::BackendMeta {
  OfferedPlace(std::shared_ptr<JoinedColumns> columns, size_t output)
      : columns(std::move(columns)), output(output) {}
  std::shared_ptr<JoinedColumns> columns;
  size_t output;
};

namespace {
const OfferedPlace* offered(const Tensor& tensor) {
  return tensor.defined()
             ? dynamic_cast<const OfferedPlace*>(tensor.unsafeGetTensorImpl()->get_backend_meta())
             : nullptr;
}

void leave(const Tensor& tensor, std::shared_ptr<JoinedColumns> columns, size_t output) {
  tensor.unsafeGetTensorImpl()->set_backend_meta(
      c10::make_intrusive<OfferedPlace>(std::move(columns), output));
}

/// A tensor without numbers that carries the offer.
Tensor carrier(const std::shared_ptr<JoinedColumns>& columns, size_t output) {
  Tensor made = at::empty({0}, columns->options);
  leave(made, columns, output);
  return made;
}

bool same_memory(const Tensor& a, const Tensor& b) {
  return a.data_ptr() == b.data_ptr() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.storage().is_alias_of(b.storage());
}
}  // namespace

Tensor offer_places(const Tensors& outputs) {
  auto columns = std::make_shared<JoinedColumns>();
  columns->options = outputs.front().options().requires_grad(false);
  columns->sizes = outputs.front().sizes().vec();
  columns->first = {0};
  for (const Tensor& output : outputs) columns->first.push_back(columns->first.back() + output.size(-1));
  columns->sizes.back() = columns->first.back();
  for (size_t i = 0; i < outputs.size(); ++i) leave(outputs[i], columns, i);
  return carrier(columns, 0);
}

Tensor offer_for(const Tensor& output) {
  const OfferedPlace* place = offered(output);
  if (place == nullptr && output.is_view()) place = offered(Tensor(output._base()));
  return place == nullptr ? Tensor() : carrier(place->columns, place->output);
}

Tensor place_of_gradient(const Tensor& output_or_offer) {
  const OfferedPlace* place = offered(output_or_offer);
  if (place == nullptr) return {};
  JoinedColumns& columns = *place->columns;
  if (!columns.all.defined()) columns.all = at::empty(columns.sizes, columns.options);
  return columns.of(place->output);
}

Tensor joined_gradients(const Tensor& places, const Tensors& gradients) {
  const OfferedPlace* place = offered(places);
  if (place == nullptr || !place->columns->all.defined()) return {};
  for (size_t i = 0; i < gradients.size(); ++i)
    if (const Tensor columns = place->columns->of(i); !same_memory(columns, gradients[i]))
      columns.copy_(gradients[i]);
  return std::exchange(place->columns->all, Tensor());
}
}  // namespace optrush
