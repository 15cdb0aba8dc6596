#include "measure/operator_costs.h"

#include <ATen/Context.h>
#include <ATen/core/function_schema.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "optrush/forecast.h"
#include "optrush/torch_versions/gpu_kernels.h"

namespace optrush {
namespace {
using Names = std::set<std::string_view>;

/// Operators that only allocate memory or change no element.
const Names kFree = {"aten::empty",          "aten::empty_like",     "aten::empty_strided",
                     "aten::new_empty",      "aten::empty_permuted", "aten::resize_",
                     "aten::set_",           "aten::record_stream",  "aten::new_empty_strided",
                     "aten::requires_grad_", "aten::detach_",        "aten::_pin_memory",
                     "aten::_unsafe_view"};
/// Operators that call others and never launch a kernel themselves.
const Names kContainers = {"aten::_to_copy", "aten::clone",      "aten::contiguous", "aten::reshape",
                           "aten::zeros",    "aten::zeros_like", "aten::new_zeros"};
/// Operators for which the host waits: it needs values, or sizes that depend on values.
const Names kWaits = {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::_unique2",
                      "aten::equal"};
/// The kernels that a GPU launches for an operator.
struct Kernels {
  int64_t whole = 0;      ///< independent of the size of its tensors
  int64_t in_pieces = 0;  ///< elementwise kernels and sums: once per piece with 32-bit offsets
};
constexpr Kernels kElementwise = {.whole = 0, .in_pieces = 1};
constexpr Kernels kZeros = kZerosAreMemsets ? Kernels{} : kElementwise;
/// Operators that have separate kernels on a GPU, even if a CPU composes them of others.
const std::map<std::string_view, Kernels> kWhole = {
    {"aten::mean", kElementwise},
    {"aten::silu_backward", kElementwise},
    {"aten::index_select", {1, 0}},
    {"aten::nll_loss_forward", {1, 0}},
    {"aten::nll_loss_backward", {1, kZeros.in_pieces}},
    {"aten::embedding_dense_backward", {1, kZeros.in_pieces}},
    {"aten::linalg_vector_norm", kElementwise},
    {"aten::_softmax", {1, 0}},
    {"aten::_log_softmax", {1, 0}},
    {"aten::_softmax_backward_data", {1, 1}},  // and the product of gradient and output
    {"aten::_log_softmax_backward_data", {1, 0}},
    {"aten::stack", {1, 0}},
    {"aten::native_dropout", {1, 0}},
    {"aten::_amp_update_scale_", {1, 0}},
    {"aten::sum", kElementwise},
    {"aten::cat", {1, 0}},
    {"aten::fill_", kElementwise},
    {"aten::zero_", kZeros},
    {"aten::arange", {1, 0}},
    {"aten::triu", {1, 0}},
    {"aten::gather", {1, 0}},
    {"aten::scatter_", {1, 0}},
    {"aten::scatter_add_", {1, 0}},
    {"aten::sort", {5, 0}},                      // and a range and three copies
    {"aten::topk", {2, 0}},                      // selection and sort
    {"aten::cumsum", {2, 0}},                    // and the state of the scan
    {"aten::linalg_solve_triangular", {0, 0}}};  // see launches_of_solution
/// The product of each group's rows, and a kernel that finds the rows.
constexpr std::string_view kGroupedMatmul = "aten::_grouped_mm";
const Names kMatmuls = {"aten::mm",         "aten::bmm",           "aten::addmm",
                        "aten::addmm_",     "aten::baddbmm",       "aten::baddbmm_",
                        "aten::_scaled_mm", "aten::_scaled_mm_v2", "aten::_addmm_activation",
                        kGroupedMatmul};
/// Kernels for the gradient of an embedding with sorted tokens, beside a pass of the sort per byte.
constexpr int64_t kSortAndSum = 12;
/// Above this size, sort copies the numbers and launches a range, a histogram, its sums, and a pass per byte.
constexpr int64_t kSortedByOneKernel = 4096, kBesidePasses = 4;
/// Operators that look rows up in their first tensor: only those rows are read.
const Names kTables = {"aten::index_select", "aten::gather", "aten::nll_loss_forward",
                       "aten::nll_loss_backward", "aten::index"};

/// Operators that change rows of their first tensor: only those rows are read and written.
const Names kScatters = {"aten::scatter_", "aten::scatter_add_", "aten::index_add_", "aten::index_put_"};

bool is_attention(std::string_view name) {
  return (name.starts_with("aten::_scaled_dot_product_") && name.find("_math") == std::string_view::npos) ||
         name.starts_with("aten::_flash_attention_") || name.starts_with("aten::_efficient_attention_") ||
         name.starts_with("aten::_cudnn_attention_");
}
bool is_multi_tensor(std::string_view name) {
  return name.starts_with("aten::_foreach_") || name.starts_with("aten::_fused_adam") ||
         name.starts_with("aten::_amp_foreach_");
}

/// Bytes of a token that a sort reads, for an embedding with `entries` rows.
int64_t bytes_sorted(int64_t entries) {
  constexpr int64_t kOfByte = 8;
  const int64_t bits = kSortsBitsOfTokens ? std::bit_width(static_cast<uint64_t>(entries)) : 64;
  return (bits + kOfByte - 1) / kOfByte;
}

double product(at::IntArrayRef sizes) {
  double n = 1;
  for (const int64_t size : sizes) n *= static_cast<double>(size);
  return n;
}
double matmul_flops(const Tensor& a, const Tensor& b) {
  return 2 * product(a.sizes()) * static_cast<double>(b.size(-1));
}

/// The value of an argument; null if the operator has no such argument.
const c10::IValue* value_given(const at::RecordFunction& fn, const char* argument) {
  const auto schema = fn.operator_schema();
  const auto index = schema ? schema->argumentIndexWithName(argument) : std::nullopt;
  return index ? &fn.inputs()[static_cast<size_t>(*index)] : nullptr;
}

/// Whether attention is causal: a fused kernel skips the masked half.
bool causal(const at::RecordFunction& fn) {
  const auto* value = value_given(fn, "is_causal");
  return value != nullptr && value->toBool();
}

/// Attention over concatenated sequences. The caller reports its FLOPs (optrush/forecast.h).
bool of_documents(const at::RecordFunction& fn) {
  constexpr std::array kEnds = {"cum_seq_q", "cu_seqlens_q"};
  return std::ranges::any_of(kEnds, [&](const char* name) {
    const auto* value = value_given(fn, name);
    return value != nullptr && value->isTensor() && value->toTensor().defined();
  });
}

/// A number that was given as an argument.
std::optional<int64_t> number_given(const at::RecordFunction& fn, const char* argument) {
  const auto* value = value_given(fn, argument);
  return value != nullptr && value->isInt() ? std::optional(value->toInt()) : std::nullopt;
}

/// Mean number of positions that a query attends to without a causal mask. A sliding window lowers it;
/// without a causal mask the window may be open to the right.
double keys_of_a_query(const at::RecordFunction& fn, int64_t positions) {
  const auto length = static_cast<double>(positions);
  const int64_t window = number_given(fn, "window_size_left").value_or(-1) + 1;
  if (window <= 0 || window >= positions) return length;
  const auto seen = static_cast<double>(window), hidden = length - seen;
  if (number_given(fn, "window_size_right").value_or(0) < 0)
    return length - hidden * (hidden + 1) / (2 * length);
  return 2 * seen - 1 - seen * (seen - 1) / length;
}

/// Calls `call` with each tensor in a value, including tensors in lists.
template <class Call>
void each_tensor(const c10::IValue& value, const Call& call) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) call(value.toTensor());
  } else if (value.isTensorList()) {
    for (const Tensor& tensor : value.toTensorVector()) call(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<Tensor> tensor : value.toOptionalTensorList())
      if (tensor && tensor->defined()) call(*tensor);
  }
}

/// Number of pieces into which TensorIterator splits tensors that 32-bit offsets can't address.
int64_t pieces_of(int64_t elements, int64_t width) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (elements <= 1 || (elements - 1) * width + 1 <= kMost) return 1;
  return pieces_of(elements / 2, width) + pieces_of(elements - elements / 2, width);
}
int64_t pieces_of(const Tensor& tensor) {
  const int64_t width = tensor.element_size();
  return pieces_of(static_cast<int64_t>(bytes_of({tensor})) / width, width);
}

/// Launches of a solution with triangular matrices: a copy of the right sides, and cuBLAS. It solves a batch
/// by one kernel, after two that write its pointers, but at most eight large matrices one by one
/// (ATen/native/cuda/linalg/BatchLinearAlgebraLib.cpp).
int64_t launches_of_solution(const Tensor& matrices) {
  const int64_t size = matrices.size(-1), count = matrices.numel() / std::max<int64_t>(size * size, 1);
  return 1 + (count <= 8 && size >= 64 ? count : 3);
}

/// One kernel joins tensors of at most four dimensions; others are copied one by one.
int64_t launches_of_cat(const Tensors& tensors) {
  const bool copies = std::ranges::any_of(tensors, [](const Tensor& tensor) { return tensor.dim() > 4; });
  return copies ? std::ssize(tensors) : 1;
}

/// Launches of a multi-tensor operator over these lists, with `depth` tensors at a time.
int64_t multi_tensor_launches(const Tensors& tensors, size_t depth) {
  constexpr int64_t kChunk = 65536, kBlocks = 320 * kMultiTensorArguments;
  constexpr std::array<int64_t, 5> kTensors = {110, 64, 48, 36, 30};
  const int64_t most = kTensors[std::clamp<size_t>(depth, 1, kTensors.size()) - 1] * kMultiTensorArguments;
  int64_t launches = 0, blocks = 0, held = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    ++held;
    for (int64_t left = (tensor.numel() + kChunk - 1) / kChunk; left > 0; --left) {
      ++blocks;
      const bool tensors_full = held == most && left == 1;
      if (!tensors_full && blocks < kBlocks) continue;
      ++launches;
      blocks = 0;
      held = left == 1 ? 0 : 1;
    }
  }
  return launches + (blocks > 0 ? 1 : 0);
}
}  // namespace

OperatorCost& OperatorCost::operator+=(const OperatorCost& o) {
  launches += o.launches, host_waits += o.host_waits, copies += o.copies, casts += o.casts;
  copied_bytes += o.copied_bytes, cast_bytes += o.cast_bytes, elementwise_bytes += o.elementwise_bytes;
  matmul_flops += o.matmul_flops, attention_flops += o.attention_flops, noted_flops += o.noted_flops;
  document_flops += o.document_flops;
  return *this;
}

OperatorCall::OperatorCall(const at::RecordFunction& fn, at::Device device)
    : device_(device), name_(fn.name()) {
  const auto in = fn.inputs();
  const bool noted_kernel = name_.starts_with(kNotedKernel);
  if (name_ == kNotedFlops || noted_kernel || name_ == kDocumentFlops) {
    kind_ = Kind::noted;
    if (name_ == kNotedFlops) {
      cost_.noted_flops = in[0].toDouble();
    } else if (name_ == kDocumentFlops) {
      cost_.document_flops = in[0].toDouble();
    } else {
      name_ = "optrush::" + name_.substr(kNotedKernel.size());
      cost_.elementwise_bytes = in[0].toDouble();
      cost_.launches = in[1].toInt();
    }
    return;
  }
  const auto schema = fn.operator_schema();
  if (!schema) return;  // not an operator, but a function of the engine around a node
  bool writes = false, makes = false;
  const auto& arguments = schema->arguments();
  for (size_t i = 0; i < in.size() && i < arguments.size(); ++i) {
    const auto* alias = arguments[i].alias_info();
    const bool written = alias != nullptr && alias->isWrite();
    writes = writes || written;
    each_tensor(in[i], [&](const Tensor& tensor) {
      here_ = here_ || tensor.device() == device_;
      if (tensor.device() != device_ || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return;
      const double bytes = bytes_of({tensor});
      pieces_ = std::max(pieces_, pieces_of(tensor));
      if (written) written_ += bytes;
      if (written && arguments[i].is_out()) return;
      (first_ == 0 && read_ == 0 ? first_ : others_) += bytes;
      read_ += bytes;
    });
  }
  for (const auto& output : schema->returns()) {
    const bool tensor = output.type()->isSubtypeOf(*c10::TensorType::get()) ||
                        output.type()->isSubtypeOf(*c10::ListType::ofTensors());
    makes = makes || (tensor && output.alias_info() == nullptr);
  }
  const auto tensor = [&](size_t i) -> const Tensor& { return in[i].toTensor(); };
  if (kMatmuls.contains(name_)) {
    kind_ = Kind::matmul;
    const bool added =
        name_.find("addmm") != std::string_view::npos || name_.find("baddbmm") != std::string_view::npos;
    cost_.matmul_flops = added ? matmul_flops(tensor(1), tensor(2)) : matmul_flops(tensor(0), tensor(1));
  } else if (is_attention(name_)) {
    kind_ = Kind::attention;
    const bool backward = name_.ends_with("_backward");
    const size_t q = backward ? 1 : 0;
    const bool documents = of_documents(fn);
    // (B, S, H, K) or (positions of all documents, H, K); for scaled_dot_product_attention (B, H, S, K).
    const bool by_positions =
        name_.starts_with("aten::_flash_attention_") || name_.starts_with("aten::_efficient_attention_");
    const double keys = keys_of_a_query(fn, tensor(q + 1).size(by_positions ? -3 : -2));
    const auto width = static_cast<double>(tensor(q).size(-1));
    const auto of_values = static_cast<double>(tensor(q + 2).size(-1));
    const double widths = backward ? 3 * width + 2 * of_values : width + of_values;
    const double scores = 2 * product(tensor(q).sizes()) / width * keys;
    if (!documents) cost_.attention_flops = scores * widths / (causal(fn) ? 2 : 1);
    const int64_t heads = by_positions ? -2 : 1;
    const bool grouped = tensor(q).size(heads) != tensor(q + 1).size(heads);
    cost_.launches = backward ? (grouped ? 5 : 3) : 1;
  } else if (name_ == "aten::copy_") {
    kind_ = Kind::copy;
    begin_copy(tensor(0), tensor(1), in[2].toBool());
  } else if (is_multi_tensor(name_)) {
    kind_ = Kind::multi_tensor;
    begin_multi_tensor(fn);
  } else if (kWaits.contains(name_)) {
    kind_ = Kind::wait;
    if (here_ && !device_.is_cpu()) cost_.host_waits = 1;
  } else if (kFree.contains(name_)) {
    kind_ = Kind::free;
  } else if (const auto found = kWhole.find(name_); found != kWhole.end()) {
    kind_ = Kind::whole;
    whole_ = found->second.whole;
    in_pieces_ = found->second.in_pieces;
    if (name_ == "aten::embedding_dense_backward" && tensor(1).numel() > kEmbeddingTokensUnsorted)
      whole_ = kSortAndSum + bytes_sorted(in[2].toInt());
    if (name_ == "aten::sort" && tensor(0).numel() > kSortedByOneKernel)
      whole_ = kBesidePasses + static_cast<int64_t>(tensor(0).element_size());
    if (name_ == "aten::linalg_solve_triangular") whole_ = launches_of_solution(tensor(0));
    // Rows have no state, but are copied if they are not contiguous.
    if (name_ == "aten::cumsum" && tensor(0).numel() != tensor(0).size(in[1].toInt()))
      whole_ = tensor(0).is_contiguous() ? 1 : 2;
    if (name_ == "aten::cat") whole_ = launches_of_cat(in[0].toTensorVector());
  } else if (!writes && !makes) {
    kind_ = Kind::any;  // a view, or an operator that calls others
    read_ = written_ = 0;
  }
}

void OperatorCall::begin_copy(const Tensor& to, const Tensor& from, bool non_blocking) {
  // On a CPU, numbers such as 2.0 become tensors of an operator's type; kernels of a GPU take them directly.
  const bool number = device_.is_cpu() && from.dim() == 0 && from.scalar_type() != to.scalar_type();
  if (to.numel() == 0 || !here_ || number) return;
  const double read = bytes_of({from}), written = bytes_of({to});
  if (to.device() != from.device()) {
    const Tensor& host = to.is_cpu() ? to : from;
    cost_.copies = 1;
    cost_.copied_bytes = written;
    const bool staged = !at::globalContext().isPinnedPtr(host.storage().data(), device_.type());
    if (!non_blocking || staged) cost_.host_waits = 1;
    return;
  }
  const bool as_bytes = from.scalar_type() == to.scalar_type() && from.is_contiguous() && to.is_contiguous();
  cost_.launches = as_bytes ? 1 : std::max(pieces_of(to), pieces_of(from));
  cost_.elementwise_bytes = read + written;
  if (from.scalar_type() == to.scalar_type() || !from.is_floating_point() || !to.is_floating_point()) return;
  cost_.casts = 1;
  cost_.cast_bytes = read + written;
  cast_from_ = {from};
}

void OperatorCall::begin_multi_tensor(const at::RecordFunction& fn) {
  const auto in = fn.inputs();
  if (!here_ || in.empty() || !in[0].isTensorList()) return;
  const Tensors first = in[0].toTensorVector();
  size_t depth = 0;
  for (const auto& value : in)
    if (value.isTensorList()) {
      const Tensors list = value.toTensorVector();
      // Step counts (one number per tensor) are part of the kernel's metadata.
      if (list.size() == first.size() && (depth == 0 || list.front().sizes() == first.front().sizes()))
        ++depth;
    }
  const bool in_place = name_.ends_with("_");
  cost_.launches = multi_tensor_launches(first, in_place ? depth : depth + 1);
  if (name_ == "aten::_foreach_norm") {
    // Zeroing the partial sums, the sums, and their reduction, for each launch's tensors.
    cost_.launches = kZeros.in_pieces + multi_tensor_launches(first, 1) + 1;
  }
  cost_.elementwise_bytes = read_ + written_;
  if (name_ != "aten::_foreach_copy_") return;
  const Tensors from = in[1].toTensorVector();
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i].scalar_type() != first[i].scalar_type()) {
      cast_from_.push_back(from[i]);
      cost_.cast_bytes += bytes_of({from[i], first[i]});
    }
  cost_.casts = static_cast<int64_t>(cast_from_.size());
}

OperatorCost OperatorCall::end(const at::RecordFunction& fn, bool inside) {
  double made = 0;
  const auto schema = fn.operator_schema();
  const auto& outputs = fn.outputs();
  if (schema)
    for (size_t i = 0; i < outputs.size() && i < schema->returns().size(); ++i)
      if (schema->returns()[i].alias_info() == nullptr)
        each_tensor(outputs[i], [&](const Tensor& tensor) {
          here_ = here_ || tensor.device() == device_;
          if (tensor.device() != device_) return;
          made += bytes_of({tensor});
          pieces_ = std::max(pieces_, pieces_of(tensor));
        });
  switch (kind_) {
    case Kind::free:
      return {};
    case Kind::noted:
    case Kind::copy:
    case Kind::wait:
      return cost_;
    case Kind::matmul:
      cost_.launches = !here_ ? 0 : name_ == kGroupedMatmul ? 2 : 1;
      break;
    case Kind::attention:
      break;
    case Kind::multi_tensor:
      cost_.elementwise_bytes += made;
      break;
    case Kind::any:
      if (inside || kContainers.contains(name_)) return {};
      [[fallthrough]];
    case Kind::whole: {
      const double looked_up = std::max(made + written_, others_);
      const double read = kTables.contains(name_) ? std::min(first_, looked_up) + others_ : read_;
      if (!here_ || made + written_ == 0) return {};
      if (kScatters.contains(name_)) {
        cost_.launches = 1;
        cost_.elementwise_bytes = 3 * others_;
        break;
      }
      cost_.launches = whole_ + in_pieces_ * pieces_;
      cost_.elementwise_bytes = read + written_ + made;
      if (name_ == "aten::_softmax_backward_data") cost_.elementwise_bytes *= 2;
      break;
    }
  }
  return here_ ? cost_ : OperatorCost{};
}
}  // namespace optrush
