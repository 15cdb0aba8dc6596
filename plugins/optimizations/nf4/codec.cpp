#include "codec.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>

#include "decode.h"
#include "kernel_parts/tensors.h"
#include "numbers.h"
#include "optrush/edit.h"
#include "optrush/forecast.h"
#include "scales.h"

namespace optrush::nf4 {
namespace {
constexpr int64_t kBlocksPerThread = 512;

/// The middles between neighbouring numbers, at which the nearest number changes.
Tensor borders_on(at::Device device) {
  const Tensor numbers = at::tensor(at::ArrayRef<float>(kNumbers.data(), kNumbers.size()));
  return ((numbers.narrow(0, 0, 15) + numbers.narrow(0, 1, 15)) / 2).to(device);
}

/// The numbers of codes (n), selected bit by bit, so that a tracer sees sixteen constants and no table.
Tensor numbers_of(const Tensor& codes, int64_t bit = 3, size_t first = 0) {
  const Tensor upper = codes.bitwise_and(int64_t{1} << bit).ne(0);
  if (bit == 0) return at::where(upper, kNumbers[first + 1], kNumbers[first]).to(at::kFloat);
  const size_t half = size_t{1} << bit;
  return at::where(upper, numbers_of(codes, bit - 1, first + half), numbers_of(codes, bit - 1, first));
}

Tensor scales_of(const Tensors& stored) {
  return stored.size() == 2 ? stored[1] : decode_scales(stored.at(1), stored.at(2), stored.at(3));
}

Tensor decode_by_calls(at::ScalarType type, const Tensors& stored, at::IntArrayRef shape) {
  const int64_t count = c10::multiply_integers(shape);
  const Tensor codes = at::stack({at::bitwise_right_shift(stored[0], 4), stored[0].bitwise_and(15)}, 1);
  const Tensor scales = scales_of(stored);
  const Tensor of_each = scales.unsqueeze(1).expand({scales.size(0), kBlock}).reshape({-1});
  return (numbers_of(codes.view({-1}).narrow(0, 0, count)) * of_each.narrow(0, 0, count))
      .to(type)
      .view(shape);
}

bool has_kernel(at::Device device, at::ScalarType type) {
  return (device.is_cpu() || device.is_cuda() || is_forecast(device)) &&
         (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf);
}

Encoded pointers_to(const Tensors& stored, int64_t count) {
  Encoded encoded{.numbers = stored[0].const_data_ptr<uint8_t>(), .count = count};
  if (stored.size() == 2) {
    encoded.scales = stored[1].const_data_ptr<float>();
  } else {
    encoded.scale_codes = stored.at(1).const_data_ptr<int8_t>();
    encoded.scale_means = stored.at(2).const_data_ptr<float>();
    encoded.scale_steps = stored.at(3).const_data_ptr<float>();
  }
  return encoded;
}

Tensor decode_by_kernel(at::ScalarType type, const Tensors& stored, at::IntArrayRef shape) {
  const at::Device device = stored[0].device();
  const Tensor out = at::empty(shape, at::TensorOptions(device).dtype(type));
  double bytes = bytes_of({out});
  for (const Tensor& field : stored) bytes += bytes_of({field});
  const NotedKernel noted("nf4_decode", bytes);
  if (is_forecast(device) || out.numel() == 0) return out;
  const Encoded encoded = pointers_to(stored, out.numel());
  const auto to_type = fused::type_of(out, "nf4");
  void* to = out.mutable_data_ptr();
  if (device.is_cuda()) {
    const c10::DeviceGuard guard(device);
    gpu::decode(encoded, to_type, to);
  } else {
    at::parallel_for(0, (out.numel() + kBlock - 1) / kBlock, kBlocksPerThread,
                     [&](int64_t begin, int64_t end) { cpu::decode(encoded, to_type, to, begin, end); });
  }
  return out;
}
}  // namespace

std::vector<Codec::Field> Nf4Codec::fields() const {
  if (!double_quantization_) return {{"numbers", at::kByte, 2}, {"scales", at::kFloat, kBlock}};
  return {{"numbers", at::kByte, 2},
          {"scale_codes", at::kChar, kBlock},
          {"scale_means", at::kFloat, kBlock * kScales},
          {"scale_steps", at::kFloat, kBlock * kScales}};
}

int64_t Nf4Codec::block() const { return double_quantization_ ? kBlock * kScales : kBlock; }

Tensors Nf4Codec::encode(const Tensor& value) const {
  const at::NoGradGuard no_grad;
  const int64_t count = value.numel();
  if (count == 0 || is_forecast(value)) {
    Tensors sizes;
    for (const Field& field : fields())
      sizes.push_back(at::empty({(count + field.elements_per_entry - 1) / field.elements_per_entry},
                                value.options().dtype(field.dtype)));
    return sizes;
  }
  const Tensor blocks =
      at::constant_pad_nd(value.flatten().to(at::kFloat), {0, (kBlock - count % kBlock) % kBlock})
          .view({-1, kBlock});
  const Tensor largest = blocks.abs().amax(1);
  Tensors stored = {Tensor()};
  for (const Tensor& part : double_quantization_ ? encode_scales(largest) : Tensors{largest})
    stored.push_back(part);
  // The nearest number for the scale that decoding uses.
  const Tensor scales = scales_of(stored);
  const Tensor inverse = at::where(scales > 0, scales.reciprocal(), at::zeros_like(scales));
  const Tensor codes =
      at::bucketize(blocks * inverse.unsqueeze(1), borders_on(value.device()), /*out_int32=*/true)
          .to(at::kByte)
          .view({-1, 2});
  stored[0] = (codes.select(1, 0) * 16 + codes.select(1, 1)).narrow(0, 0, (count + 1) / 2).clone();
  return stored;
}

Tensor Nf4Codec::decode_as(at::ScalarType type, const Tensors& stored, at::IntArrayRef shape) const {
  const at::NoGradGuard no_grad;
  const bool by_kernel = !tracing() && has_kernel(stored.at(0).device(), type);
  return by_kernel ? decode_by_kernel(type, stored, shape) : decode_by_calls(type, stored, shape);
}
}  // namespace optrush::nf4
