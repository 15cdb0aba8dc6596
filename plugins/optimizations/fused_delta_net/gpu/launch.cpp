// Launches of the GPU kernels: which instance of a template fits the types, the widths and the alignment.
#include <algorithm>
#include <initializer_list>

#include "gpu/programs.h"
#include "kernel_parts/gpu_instance.h"
#include "kernels.h"

namespace optrush::fused {
namespace {
constexpr int64_t kRuleThreads = 128, kRowsOfBlock = kRuleThreads / 32, kConvolutionThreads = 128;

int64_t parts_of(int64_t count, int64_t size) { return (count + size - 1) / size; }

/// The launches of one call.
class RuleLaunches {
 public:
  RuleLaunches(const DeltaRule& in, std::initializer_list<Rows> rows)
      : in_(in),
        shared(gpu::delta_rule_shared(in.type, in.key_width)),
        key_rows(in.batch * in.key_heads * in.positions),
        key_chunks(in.batch * in.key_heads * parts_of(in.positions, gpu::delta_rule_chunk(in.type))),
        value_chunks(key_chunks * in.shared),
        value_slices(in.batch * in.key_heads * in.shared * parts_of(in.value_width, gpu::kSlice)) {
    for (const int64_t width : {in.key_width, in.value_width})
      lanes_ = std::min(lanes_, gpu::lanes({in.type}, width, {}));
    for (const Rows& each : rows) {
      lanes_ = std::min(lanes_, gpu::lanes({in.type}, 0, {each.data}));
      for (const int64_t stride : {each.batch, each.head, each.token})
        lanes_ = std::min(lanes_, gpu::lanes({in.type}, stride, {}));
    }
  }
  /// A kernel with dynamic shared memory and lanes.
  template <class... Arguments>
  void run(const GpuProgram& program, const char* kernel, int64_t blocks, int64_t shared_bytes,
           const Arguments&... arguments) const {
    program.kernel(gpu::delta_rule_name(kernel, in_.type, lanes_))
        .launch({.blocks = {blocks, 1, 1}, .threads = {kRuleThreads, 1, 1}, .shared = shared_bytes}, in_,
                arguments...);
  }
  /// A kernel with a warp for each row of keys.
  template <class... Arguments>
  void run_rows(const GpuProgram& program, const char* kernel, const Arguments&... arguments) const {
    program.kernel(gpu::delta_rule_name(kernel, in_.type))
        .launch({.blocks = {parts_of(key_rows, kRowsOfBlock), 1, 1}, .threads = {kRuleThreads, 1, 1}}, in_,
                arguments...);
  }
  void run_squares_and_states(const DeltaRuleWorkspace& workspace) const {
    const GpuProgram& program = gpu::delta_rule_program();
    run_rows(program, "lengths", workspace, key_rows);
    run(program, "squares", value_chunks, shared.squares, workspace);
    run(program, "states", value_slices, shared.states, workspace);
  }

 private:
  const DeltaRule& in_;
  int64_t lanes_ = 8;

 public:
  const gpu::DeltaRuleShared shared;
  const int64_t key_rows, key_chunks, value_chunks, value_slices;
};

Rows read(const MutableRows& rows) { return {rows.data, rows.batch, rows.head, rows.token}; }
}  // namespace

void gpu::delta_rule_forward(const DeltaRuleForward& call, const DeltaRuleWorkspace& workspace) {
  const RuleLaunches launches(call.in, {call.in.q, call.in.k, call.in.v, read(call.out)});
  launches.run_squares_and_states(workspace);
  launches.run(delta_rule_program(), "outputs", launches.value_chunks, launches.shared.outputs, workspace,
               call.out);
}

void gpu::delta_rule_backward(const DeltaRuleBackward& call, const DeltaRuleWorkspace& workspace) {
  const RuleLaunches launches(call.in, {call.in.q, call.in.k, call.in.v, call.out_gradient, read(call.v)});
  launches.run_squares_and_states(workspace);
  const GpuProgram& program = delta_rule_backward_program();
  const DeltaRuleShared& shared = launches.shared;
  launches.run(program, "state_gradients", launches.value_slices, shared.state_gradients, workspace,
               call.out_gradient);
  launches.run(program, "square_gradients", launches.key_chunks, shared.square_gradients, workspace,
               call.out_gradient, call.v);
  launches.run(program, "key_gradients", launches.key_chunks * parts_of(call.in.key_width, kSlab),
               shared.key_gradients, workspace, call.out_gradient);
  launches.run_rows(program, "unnormalize", workspace, launches.key_rows, call.q, call.k);
  program.kernel(delta_rule_name("gate_gradients", call.in.type))
      .launch({.blocks = {launches.value_chunks, 1, 1},
               .threads = {delta_rule_chunk(call.in.type), 1, 1},
               .shared = shared.gate_gradients},
              call.in, workspace, call.log_decay, call.beta);
}

namespace {
/// Neighbours of a thread. With many taps, or more neighbours, its numbers do not fit the registers.
int64_t neighbours(const Convolution& p, std::initializer_list<const void*> addresses) {
  const int64_t lanes = gpu::lanes({p.type}, p.channels, addresses);
  return p.taps > 4 ? 1 : std::min<int64_t>(lanes, 4);
}
GpuGrid convolution_grid(int64_t threads) {
  return {.blocks = {parts_of(threads, kConvolutionThreads), 1, 1}, .threads = {kConvolutionThreads, 1, 1}};
}
}  // namespace

void gpu::convolution_forward(const Convolution& p, void* out) {
  const int64_t together = neighbours(p, {p.x, p.weight, out});
  const int64_t threads = convolution_runs(p.batch, p.positions) * (p.channels / together);
  convolution_program()
      .kernel(convolution_name("forward", p.type, together, p.taps))
      .launch(convolution_grid(threads), p, out, threads);
}

void gpu::convolution_backward(const Convolution& p, const void* out_gradient, void* x_gradient,
                               void* weight_parts, void* weight_gradient, Type weight_type) {
  const int64_t together = neighbours(p, {p.x, p.weight, out_gradient, x_gradient, weight_parts});
  const int64_t runs = convolution_runs(p.batch, p.positions), threads = runs * (p.channels / together);
  if (threads > 0)
    convolution_program()
        .kernel(convolution_name("backward", p.type, together, p.taps))
        .launch(convolution_grid(threads), p, out_gradient, x_gradient, weight_parts, threads);
  convolution_program()
      .kernel(sum_convolution_parts_name(p.type, weight_type))
      .launch({.blocks = {parts_of(p.taps * p.channels, kSumColumns), 1, 1},
               .threads = {kSumColumns, kSumLines, 1}},
              weight_parts, weight_gradient, runs, p.channels, p.taps);
}
}  // namespace optrush::fused
