#include "cudnn/attention.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "optrush/error.h"
#include "optrush/forecast.h"

namespace optrush::flash::cudnn {
/// A compiled graph. `steps`: of documents, the elements of a position in each operand, (operands, 1) int32.
struct Attention::Prepared {
  std::shared_ptr<const Graph> graph;
  Tensor steps;
};

namespace {
/// The operands of documents that hold positions, with the elements between two positions.
std::vector<std::pair<Operand, int64_t>> steps_of(const Form& form) {
  const int64_t out = form.heads * form.value_width;
  std::vector<std::pair<Operand, int64_t>> steps = {
      {Operand::q, form.strides[0].position},
      {Operand::k, form.strides[1].position},
      {Operand::v, form.strides[2].position},
      {Operand::out, form.backward ? form.strides[3].position : out},
      {Operand::lse, form.heads}};
  if (form.backward)
    steps.insert(steps.end(), {{Operand::gradient, form.strides[4].position},
                               {Operand::dq, form.heads * form.width},
                               {Operand::dk, form.groups * form.width},
                               {Operand::dv, form.groups * form.value_width}});
  return steps;
}

Tensor steps_on(at::Device device, const Form& form) {
  std::vector<int64_t> steps;
  for (const auto& [operand, step] : steps_of(form)) steps.push_back(step);
  if (*std::ranges::max_element(steps) * form.positions > std::numeric_limits<int32_t>::max())
    throw Error("cuDNN's packed documents have at most 2^31 elements in a tensor",
                "use a smaller micro-batch, or kernel = \"flash\"");
  return at::tensor(steps, at::kInt).unsqueeze(1).to(device);
}

/// The kernels read 16 bytes at a time.
bool is_aligned(const Tensor& x) {
  constexpr uintptr_t kBytes = 16;
  const int64_t elements = static_cast<int64_t>(kBytes) / x.element_size();
  if (reinterpret_cast<uintptr_t>(x.const_data_ptr()) % kBytes != 0 || x.stride(-1) != 1) return false;
  for (int64_t axis = 0; axis < x.dim() - 1; ++axis)
    if (x.size(axis) > 1 && (x.stride(axis) <= 0 || x.stride(axis) % elements != 0)) return false;
  return true;
}

/// (B, H, S, K) as a graph takes it: as it is, or a copy in the order (B, S, H, K). Of documents (T, H, K).
struct Taken {
  Tensor data;
  Strides strides;
};
Taken taken(const Tensor& x, const AttentionArgs& args) {
  Tensor rows = x.transpose(1, 2);
  if (!args.segments.defined()) {
    if (!is_aligned(rows)) rows = rows.contiguous();
    return {rows, {rows.stride(0), rows.stride(2), rows.stride(1)}};
  }
  Tensor positions = rows.flatten(0, 1);
  if (!is_aligned(positions)) positions = positions.contiguous();
  const int64_t step = positions.stride(0);
  return {positions, {args.segments.max_seqlen * step, positions.stride(1), step}};
}

/// New memory for (B, H, S, K) in the order (B, S, H, K), seen as (B, H, S, K).
Tensor new_like(const Tensor& x, int64_t width) {
  return at::empty({x.size(0), x.size(2), x.size(1), width}, x.options()).transpose(1, 2);
}

Form form_of(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args) {
  Form form{.type = q.scalar_type(),
            .sequences = q.size(0),
            .heads = q.size(1),
            .groups = k.size(1),
            .queries = q.size(2),
            .keys = k.size(2),
            .width = q.size(3),
            .value_width = v.size(3),
            .causal = args.causal,
            .window = args.has_window(k.size(2)) ? args.window : 0,
            .soft_cap = args.soft_cap,
            .scale = args.scale};
  if (!args.segments.defined()) return form;
  form.sequences = args.segments.cu_seqlens.numel() - 1;
  form.queries = form.keys = args.segments.max_seqlen;
  form.positions = q.size(0) * q.size(2);
  if (args.window >= form.keys) form.window = 0;
  return form;
}
}  // namespace

Attention::Attention(std::string architecture) : architecture_(std::move(architecture)) {}
Attention::~Attention() = default;

bool Attention::takes(const Tensor& k, const Tensor& v, const AttentionArgs& args) const {
  const bool capped = args.soft_cap != 0, documents = args.segments.defined();
  if (capped && documents) return false;
  if (capped || documents || v.size(3) != k.size(3))
    return architecture_ == "sm_90" || architecture_.starts_with("sm_10");
  return args.has_window(k.size(2));
}

void Attention::run(const Form& form, const std::map<Operand, Tensor>& tensors, const Tensor& starts) {
  const std::lock_guard lock(mutex_);
  const auto options = tensors.begin()->second.options();
  auto found = prepared_.find(form);
  if (found == prepared_.end()) {
    if (!handle_) handle_ = new_handle();
    const Tensor steps = form.of_documents() ? steps_on(options.device(), form) : Tensor();
    const Prepared made{std::make_shared<const Graph>(form, architecture_, handle_), steps};
    found = prepared_.emplace(form, made).first;
  }
  const auto& [graph, steps] = found->second;
  double bytes = 0;
  std::unordered_map<int64_t, void*> memory;
  for (const auto& [operand, tensor] : tensors) {
    memory[number_of(operand)] = tensor.data_ptr();
    bytes += bytes_of({tensor});
  }
  const NotedKernel kernel("cudnn_attention", bytes);
  Tensor lengths, first;
  if (form.of_documents()) {
    lengths = starts.diff();
    first = steps * starts;  // (operands, documents + 1)
    memory[number_of(Operand::lengths)] = lengths.data_ptr();
    int64_t row = 0;
    for (const auto& [operand, step] : steps_of(form))
      memory[number_of(Starts{operand})] = first[row++].data_ptr();
  }
  const Tensor workspace = at::empty({graph->workspace_bytes()}, options.dtype(at::kByte));
  graph->run(memory, workspace.data_ptr());
}

AttentionOut Attention::forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                const AttentionArgs& args) {
  Form form = form_of(q, k, v, args);
  const std::array inputs = {taken(q, args), taken(k, args), taken(v, args)};
  for (size_t i = 0; i < inputs.size(); ++i) form.strides[i] = inputs[i].strides;
  const Tensor out = new_like(q, v.size(3));
  const auto fp32 = q.options().dtype(at::kFloat);
  const Tensor lse = form.of_documents() ? at::empty({q.size(0), q.size(2), q.size(1)}, fp32).transpose(1, 2)
                                         : at::empty({q.size(0), q.size(1), q.size(2)}, fp32);
  run(form,
      {{Operand::q, inputs[0].data},
       {Operand::k, inputs[1].data},
       {Operand::v, inputs[2].data},
       {Operand::out, out},
       {Operand::lse, lse}},
      args.segments.cu_seqlens);
  return {out, lse};
}

std::array<Tensor, 3> Attention::backward(const Tensor& gradient, const Tensor& q, const Tensor& k,
                                          const Tensor& v, const Tensor& out, const Tensor& lse,
                                          const AttentionArgs& args) {
  Form form = form_of(q, k, v, args);
  form.backward = true;
  const std::array inputs = {taken(q, args), taken(k, args), taken(v, args), taken(out, args),
                             taken(gradient, args)};
  for (size_t i = 0; i < inputs.size(); ++i) form.strides[i] = inputs[i].strides;
  const std::array made = {new_like(q, q.size(3)), new_like(k, k.size(3)), new_like(v, v.size(3))};
  run(form,
      {{Operand::q, inputs[0].data},
       {Operand::k, inputs[1].data},
       {Operand::v, inputs[2].data},
       {Operand::out, inputs[3].data},
       {Operand::gradient, inputs[4].data},
       {Operand::lse, form.of_documents() ? lse.transpose(1, 2).contiguous() : lse.contiguous()},
       {Operand::dq, made[0]},
       {Operand::dk, made[1]},
       {Operand::dv, made[2]}},
      args.segments.cu_seqlens);
  return made;
}
}  // namespace optrush::flash::cudnn
