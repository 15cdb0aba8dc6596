// Bytes: each input is read once and each output is written once. The weights of a norm and the tables of a
// rotary embedding are too small to count. FLOPs are counted for matrix products; causal attention counts
// half of its scores. Other operators count one FLOP for each arithmetic operation of their formula.
#include "spec/operator_spec.h"

namespace optrush {
namespace {
struct Pass {
  double elements = 0, flops = 0;
  Pass& operator+=(const Pass& other) {
    elements += other.elements;
    flops += other.flops;
    return *this;
  }
};
struct Passes {
  Pass forward, backward;
};

/// `n`: number of elements of a (B, S, dim) tensor.
Passes of_operator(const OperatorSpec& spec, const TrainSpec& train, double n) {
  const double tokens = n / static_cast<double>(spec.dim);
  const auto product = [&](double out) {  // (tokens, dim) times (out, dim)
    const double in = static_cast<double>(spec.dim), weight = in * out, flops = 2 * tokens * weight;
    return Passes{{n + tokens * out + weight, flops}, {2 * n + tokens * out + 2 * weight, 2 * flops}};
  };
  if (spec.op == "norm") return {{2 * n, 4 * n}, {3 * n, 8 * n}};
  if (spec.op == "add_norm") return {{4 * n, 5 * n}, {4 * n, 9 * n}};
  if (spec.op == "position") return {{4 * n, 6 * n}, {4 * n, 6 * n}};
  if (spec.op == "swiglu") return {{3 * n, 5 * n}, {5 * n, 9 * n}};
  if (spec.op == "linear") return product(static_cast<double>(spec.dim));
  if (spec.op == "attention") {
    const double scores = n * static_cast<double>(train.seq_len);  // causal: on average half of the positions
    return {{4 * n, 2 * scores}, {8 * n, 4 * scores}};
  }
  if (spec.op == "mlp") {  // the hidden activations need not be in memory as a whole
    const double inner = tokens * static_cast<double>(spec.ffn_dim);
    const double weights = 3 * static_cast<double>(spec.dim * spec.ffn_dim), flops = 2 * tokens * weights;
    return {{2 * n + weights, flops + 5 * inner + n}, {3 * n + 2 * weights, 2 * flops + 9 * inner + n}};
  }
  Passes head = product(static_cast<double>(spec.vocab_size));
  // The logits and their gradient need not be in memory as a whole.
  head.forward.elements -= tokens * static_cast<double>(spec.vocab_size);
  head.backward.elements -= tokens * static_cast<double>(spec.vocab_size);
  return head;
}

/// The work around the operator: splitting the inputs, joining the outputs, and the loss.
Passes of_frame(const OperatorSpec& spec, double n) {
  if (spec.op == "head_loss") return {};
  Passes frame{{n, 2 * n}, {2 * n, n}};
  const auto operands = static_cast<double>(spec.operands());
  if (operands > 1) frame.backward.elements += 2 * operands * n;
  if (spec.op == "add_norm" || spec.op == "position") frame.forward += {3 * n, n};
  return frame;
}
}  // namespace

OperatorWork operator_work(const OperatorSpec& spec, const TrainSpec& train) {
  const double n = static_cast<double>(train.micro_batch) * static_cast<double>(train.seq_len) *
                   static_cast<double>(spec.dim);
  const double bytes = train.dtype == "fp64" ? 8 : train.dtype == "bf16" ? 2 : 4;
  Passes all = of_frame(spec, n);
  const Passes one = of_operator(spec, train, n);
  for (int64_t i = 0; i < spec.repeat; ++i) {
    all.forward += one.forward;
    all.backward += one.backward;
  }
  const auto step = static_cast<double>(train.accumulation);
  const auto shown = [&](const Pass& pass) {
    return OperatorWork::Pass{.bytes = step * bytes * pass.elements, .flops = step * pass.flops};
  };
  return {.forward = shown(all.forward), .backward = shown(all.backward)};
}
}  // namespace optrush
