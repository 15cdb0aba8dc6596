#include "flat_group.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "host_piece.h"

namespace optrush::fsdp {
namespace {
int64_t entries(int64_t elements, int64_t elements_per_entry) {
  return (elements + elements_per_entry - 1) / elements_per_entry;
}
}  // namespace

FlatGroup::FlatGroup(FlatPlan plan, Group& ranks, at::Device device, bool piece_on_host)
    : plan_(std::move(plan)), ranks_(ranks), device_(device), split_over_(plan_.first().sharded_over) {
  for (const auto& dim : plan_.dims)
    if (std::ranges::find(split_over_, dim) == split_over_.end()) split_over_.push_back(dim);
  const auto add_field = [&](at::ScalarType gathered, at::ScalarType kept, int64_t elements_per_entry) {
    auto kept_as = at::TensorOptions(kept).device(piece_on_host ? at::Device(at::kCPU) : device);
    if (piece_on_host && !device.is_cpu()) kept_as = kept_as.pinned_memory(true);
    fields_.push_back(
        {FlatStorage(plan_.size / elements_per_entry, at::TensorOptions(gathered).device(device), plan_.unit),
         elements_per_entry, kept_as});
  };
  if (const auto& codec = plan_.first().codec) {
    for (const auto& field : codec->fields()) add_field(field.dtype, field.dtype, field.elements_per_entry);
  } else {
    add_field(plan_.gather_type, plan_.own_type, 1);
  }
  for (const Placed& placed : plan_.params) {
    const Layout kept = plan_.kept(placed, ranks.rank());
    if (kept.numel() > 0) segments_.push_back({placed.param, kept, plan_.at_in_piece(placed, ranks.rank())});
  }
  for (const Placed& placed : plan_.params) {
    placed.param->layout = plan_.kept(placed, ranks.rank());
    placed.param->sharded_over = split_over_;
  }
}

const Segment& FlatGroup::segment_of(const Param& param) const {
  return *std::ranges::find(segments_, &param, &Segment::param);
}

void FlatGroup::make_pieces() {
  for (Field& field : fields_)
    field.piece = new_piece(plan_.piece / field.elements_per_entry, field.kept_as, device_);
}

void FlatGroup::store(Param& param, const Tensors& values) {
  const at::NoGradGuard no_grad;
  if (!fields_.front().piece.defined()) make_pieces();
  const auto placed = std::ranges::find(plan_.params, &param, &Placed::param);
  const auto segment = std::ranges::find(segments_, &param, &Segment::param);
  if (segment != segments_.end())
    for (size_t i = 0; i < fields_.size(); ++i) {
      const int64_t step = fields_[i].elements_per_entry, count = entries(segment->layout.numel(), step);
      copy_to_piece(fields_[i].piece.narrow(0, segment->at / step, count),
                    values.at(i).reshape({-1}).narrow(0, 0, count));
    }
  if (!param.codec) {
    param.leaf =
        fields_.front().whole.view(placed->at, placed->box.box_shape()).requires_grad_(param.trainable);
    return;
  }
  param.stored.clear();
  for (const Field& field : fields_)
    param.stored.push_back(field.whole.view(placed->at / field.elements_per_entry,
                                            {entries(placed->numel(), field.elements_per_entry)}));
}

void FlatGroup::start_gather() {
  if (present()) return;
  ++gathers_;
  const at::NoGradGuard no_grad;
  for (Field& field : fields_) {
    if (std::exchange(field.version, field.piece._version()) != field.piece._version()) field.whole.renew();
    field.whole.allocate();
    const Tensor whole = field.whole.whole();
    const int64_t count = field.piece.numel();
    const Tensor mine = whole.narrow(0, ranks_.rank() * count, count);
    mine.copy_(field.piece, /*non_blocking=*/true);
    pending_.push_back(ranks_.all_gather(whole, mine));
  }
}

void FlatGroup::wait() {
  for (WorkHandle& pending : pending_) pending.wait();
  pending_.clear();
}

void FlatGroup::free() {
  wait();  // the memory may not go while it is written
  for (Field& field : fields_) field.whole.free();
}

bool FlatGroup::outdated() const {
  return present() && std::ranges::any_of(fields_, [](const Field& field) {
           return field.version != static_cast<int64_t>(field.piece._version());
         });
}

double FlatGroup::gathered_bytes() const {
  double bytes = 0;
  const auto& codec = plan_.first().codec;
  if (!codec)
    return static_cast<double>(plan_.numel()) * static_cast<double>(at::elementSize(plan_.gather_type));
  for (const auto& field : codec->fields())
    for (const Placed& placed : plan_.params)
      bytes += static_cast<double>(entries(placed.numel(), field.elements_per_entry)) *
               static_cast<double>(at::elementSize(field.dtype));
  return bytes;
}
}  // namespace optrush::fsdp
