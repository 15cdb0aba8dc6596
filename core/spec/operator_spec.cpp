#include "spec/operator_spec.h"
#include "optrush/error.h"
#include "spec/collective_spec.h"

namespace optrush {
namespace {
void check_operator(const OperatorSpec& spec) {
  const bool headed = spec.op == "position" || spec.op == "attention";
  if (headed && spec.dim % spec.n_heads != 0)
    throw Error(ErrorCode::invalid_value,
                "model.dim (" + std::to_string(spec.dim) + ") is not a multiple of model.n_heads (" +
                    std::to_string(spec.n_heads) + ")",
                "change one of them");
  if (spec.op == "position" && spec.dim / spec.n_heads % 2 != 0)
    throw Error(ErrorCode::invalid_value,
                "heads of " + std::to_string(spec.dim / spec.n_heads) + " cannot be rotated in pairs",
                "make model.dim / model.n_heads even");
  if (spec.op == "head_loss" && spec.repeat != 1)
    throw Error(ErrorCode::conflict,
                "model.repeat does not apply to head_loss, whose output is a single number", "leave it out");
}

// Bytes: each input is read once and each output is written once. The weights of a norm and the tables of a
// rotary embedding are too small to count. FLOPs are counted for matrix products; causal attention counts
// half of its scores. Other operators count one FLOP for each arithmetic operation of their formula.
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

int64_t OperatorSpec::operands() const {
  if (op == "add_norm" || op == "position") return 2;
  if (op == "attention") return 3;         // q, k, v
  return op == "swiglu" ? repeat + 1 : 1;  // one gate, and one up projection for each repetition
}

Record<OperatorSpec> record_of(const OperatorSpec*) {
  using T = OperatorSpec;
  constexpr int64_t kLargest = int64_t{1} << 31;  // products of two dimensions stay far from overflow
  return Record<T>::given("model")
      .field(
          "op", &T::op, "which",
          {.required = true,
           .choices = {"norm", "add_norm", "position", "attention", "swiglu", "linear", "mlp", "head_loss"}})
      .field("dim", &T::dim, "width of each input", {.min = 1, .max = kLargest})
      .field("n_heads", &T::n_heads, "number of heads of position and attention; must divide dim",
             {.min = 1, .max = kLargest})
      .field("ffn_dim", &T::ffn_dim, "inner width of the operator mlp", {.min = 1, .max = kLargest})
      .field("vocab_size", &T::vocab_size, "vocabulary of the operator head_loss",
             {.min = 2, .max = kLargest})
      .field("repeat", &T::repeat, "calls per step, to reduce the share of other work",
             {.min = 1, .max = 1000})
      .then(check_operator);
}

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

Record<CollectiveSpec> record_of(const CollectiveSpec*) {
  using T = CollectiveSpec;
  return Record<T>::given("model")
      .field("op", &T::op, "which",
             {.required = true,
              .choices = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"}})
      .field("bytes", &T::bytes,
             "bytes of the larger of a rank's input and output, as in nccl-tests; rounded up to an equal "
             "number of fp32 elements per rank",
             {.min = 4, .max = int64_t{1} << 36})
      .field("repeat", &T::repeat, "calls per step, to reduce the share of other work",
             {.min = 1, .max = 100000});
}
}  // namespace optrush
