// The fused loss on a CPU beside the plain one, and beside the same chunks made of LibTorch's operators: time
// of forward and backward, and the bytes that they need at a time. Rounds are interleaved. The best round of
// each counts, because other programs can only slow it down.
//   build/bench/fused_loss [tokens] [width] [vocabulary] [rounds] [chunk]
// Default: 2048 tokens, width 256, vocabulary 32000, 5 rounds, automatic chunks.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>

#include "loss_function.h"
#include "measure/memory.h"
#include "model/operators.h"

namespace optrush {
namespace {
struct Problem {
  Tensor x, labels, weight;
};

struct Form {
  const char* name;
  std::function<Tensor(const Problem&)> loss;
  double seconds = std::numeric_limits<double>::infinity();
  int64_t bytes = 0;
  double value = 0;
};

void run(Form& form, const Problem& given) {
  Problem p{given.x.detach().requires_grad_(), given.labels, given.weight.detach().requires_grad_()};
  const int64_t before = cpu_allocated();
  reset_memory_peak(at::kCPU);
  const auto start = std::chrono::steady_clock::now();
  const Tensor loss = form.loss(p);
  loss.backward();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  form.seconds = std::min(form.seconds, time.count());
  form.bytes = memory_peak(at::kCPU).allocated - before;
  form.value = loss.item<double>();
}

void measure(at::ScalarType type, const Problem& given, int rounds, int64_t chunk) {
  const Problem p{given.x.to(type), given.labels, given.weight.to(type)};
  const LossForm form{.chunk = chunk};
  const Differentiable kernel = make_loss_function(form);
  const Differentiable operators(
      {.name = kernel->name,
       .forward =
           [form](const Tensors& in) { return linear_cross_entropy_by_operators(in[0], in[1], in[2], form); },
       .backward = kernel->backward,
       .traits = kernel->traits,
       .cast = kernel->cast});
  std::vector<Form> forms = {
      {"plain",
       [](const Problem& q) { return plain::cross_entropy_sum(at::linear(q.x, q.weight), q.labels); }},
      {"chunks of operators",
       [&](const Problem& q) {
         return call(operators, {q.x, q.labels, q.weight}).at(0);
       }},
      {"chunks, one kernel", [&](const Problem& q) {
         return call(kernel, {q.x, q.labels, q.weight}).at(0);
       }}};
  for (int round = -1; round < rounds; ++round)
    for (Form& form : forms) {
      if (round == 0) form.seconds = std::numeric_limits<double>::infinity();  // the first round is a warm-up
      run(form, p);
    }
  for (const Form& form : forms)
    std::printf("%-9s %-20s %9.1f ms %6.2fx %9.1f MiB   loss %.4f\n", c10::toString(type), form.name,
                form.seconds * 1e3, forms.front().seconds / form.seconds,
                static_cast<double>(form.bytes) / (1 << 20), form.value);
}
}  // namespace
}  // namespace optrush

int main(int arguments, char** values) {
  using namespace optrush;
  install_cpu_memory_tracking();
  const auto number = [&](int i, int64_t otherwise) {
    return arguments > i ? std::atoll(values[i]) : otherwise;
  };
  const int64_t tokens = number(1, 2048), width = number(2, 256), vocabulary = number(3, 32000);
  const Problem p{at::randn({tokens, width}), at::randint(vocabulary, {tokens}, at::kLong),
                  at::randn({vocabulary, width}) * 0.05};
  std::printf("%lld tokens, width %lld, vocabulary %lld, %d threads; forward and backward\n",
              static_cast<long long>(tokens), static_cast<long long>(width),
              static_cast<long long>(vocabulary), at::get_num_threads());
  for (const auto type : {at::kFloat, at::kBFloat16})
    measure(type, p, static_cast<int>(number(4, 5)), number(5, 0));
}
