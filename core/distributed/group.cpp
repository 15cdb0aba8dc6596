#include "optrush/mesh.h"

#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

#include <torch/library.h>
#include <algorithm>
#include <exception>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <type_traits>

#include "distributed/backend.h"
#include "distributed/groups.h"
#include "distributed/planned_mail.h"
#include "optrush/error.h"
#include "optrush/forecast.h"
#include "optrush/slot.h"
#include "optrush/torch_versions/collectives.h"

namespace optrush {
namespace {
/// The sum over a group by the functional collectives of LibTorch. Boxed, because its versions give the names
/// other types.
Tensor sum_of_group(const Tensor& tensor, const std::string& group) {
  c10::Stack stack = {tensor, "sum", group};
  for (const char* called : {"_c10d_functional::all_reduce", "_c10d_functional::wait_tensor"})
    c10::Dispatcher::singleton().findSchemaOrThrow(called, "").callBoxed(stack);
  return stack.front().toTensor();
}

/// The operator optrush::all_reduce, which the tracer records. It can't record LibTorch's, whose names have
/// the type Any in LibTorch 2.15.
Tensor all_reduce_node(const Tensor& tensor, const std::string& group) {
  static const auto library = [] {
    torch::Library made(torch::Library::FRAGMENT, "optrush", std::nullopt, __FILE__, __LINE__);
    made.def("all_reduce(Tensor input, str group_name) -> Tensor");
    made.impl("all_reduce", torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd,
                                            [](const Tensor& input, std::string name) {
                                              return sum_of_group(input, name);
                                            }));
    return made;
  }();
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("optrush::all_reduce", "")
                             .typed<Tensor(const Tensor&, std::string)>();
  return op.call(tensor, group);
}

using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;

/// A view of a tensor's memory that does not own it. Gloo's thread releases its tensors some time after a
/// wait has ended. With views, this thread alone decides when the memory is freed. The state of the call
/// holds the tensors until the call is done. For a gather, Gloo frees its copy before the call ends.
Tensor unowned(const Tensor& tensor) {
  if (!tensor.is_cpu()) return tensor;
  if (!tensor.is_non_overlapping_and_dense())
    throw Error(ErrorCode::invalid_plugin, "a collective got a tensor with gaps between its elements",
                "give it tensor.contiguous()");
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.options());
}

/// The same as a flat tensor of bytes, because Gloo need not know the type.
Tensor unowned_bytes(const Tensor& tensor) {
  const Tensor flat = tensor.view(-1);
  if (!flat.is_cpu()) return flat;
  return at::from_blob(flat.data_ptr(), {static_cast<int64_t>(flat.nbytes())}, at::kByte);
}

/// Converts numbers of rows to numbers of entries of a flat tensor.
std::vector<int64_t> in_entries(std::vector<int64_t> rows, int64_t entries) {
  const int64_t all = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  for (int64_t& part : rows) part = all == 0 ? 0 : part * (entries / all);
  return rows;
}

/// In a group of one rank: copies the input to the output.
WorkHandle keep_own(const Tensor& out, const Tensor& in) {
  if (!out.is_alias_of(in) && !is_forecast(out)) out.view(-1).copy_(in.view(-1));
  return {};
}

/// Ends NCCL's communicators. Their ranks wait for each other, so after an error they are aborted instead.
void end_connections(c10d::Backend& backend) noexcept {
  try {
    if (std::uncaught_exceptions() > 0)
      backend.abort();
    else
      backend.shutdown();
  } catch (const std::exception&) {  // the run has its result, or an error that explains this one
  }
}
}  // namespace

struct WorkHandle::State {
  ~State() {
    // If no wait succeeded, the call may still read and write its tensors.
    if (!std::ranges::all_of(works, [](const auto& work) { return work->isCompleted(); }))
      std::ranges::move(kept, std::back_inserter(groups->abandoned_));
  }

  /// Empty in a plan, which holds the tensors just as long.
  Works works;
  std::string what;            ///< description for errors: "all_reduce of 4 MiB in group 'dp' (2 of 4)"
  std::function<void()> then;  ///< called once all data has arrived
  Tensors kept;
  Groups* groups;
};

void WorkHandle::wait() {
  if (!state_) return;
  const auto state = std::exchange(state_, nullptr);
  if (state->works.empty()) return;
  const auto exposed = state->groups->exposed_ ? state->groups->exposed_() : nullptr;
  call_collective(state->what, [&] {
    for (const auto& work : state->works) work->wait();
  });
  state->works.clear();
  if (state->then) state->then();
}

bool WorkHandle::done() const {
  return !state_ || std::ranges::all_of(state_->works, [](const auto& work) { return work->isCompleted(); });
}

struct Group::State {
  std::string name;
  int64_t size = 1, rank = 0;
  bool sends = false;  ///< whether messages are sent: false for one rank and in a forecast
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  c10::intrusive_ptr<c10d::ProcessGroup> functional;  ///< the same group for compiled code
  c10::intrusive_ptr<c10d::Backend> links;            ///< on a GPU, created at the first send or receive
  std::set<int64_t> linked;                           ///< the ranks to which `links` has connections
  c10::intrusive_ptr<c10d::Store> store;
  Groups* groups = nullptr;

  void count(const char* collective, double bytes, double share_sent) const {
    Traffic& traffic = groups->traffic_[{groups->bookkeeping_ > 0 ? "bookkeeping" : collective, name}];
    traffic.ranks = size;
    ++traffic.calls;
    traffic.bytes += bytes;
    traffic.sent += bytes * share_sent;
  }

  std::string described(const char* collective, size_t bytes) const {
    return std::string(collective) + " of " + std::to_string(bytes) + " bytes in group '" + name +
           "' (rank " + std::to_string(rank) + " of " + std::to_string(size) + ")";
  }

  class CompiledWork;
  class CompiledGroup;

  /// Counts a call and starts it.
  template <class Start>
  WorkHandle start(const char* collective, const Tensor& tensor, double share_sent, Tensors kept,
                   Start&& start, std::function<void()> then = {}) {
    if (tracing())
      throw Error(ErrorCode::unsupported,
                  std::string(collective) + " of group '" + name + "' cannot be compiled",
                  "move it out of the compiled blocks, or use all_reduced()");
    if (size == 1) return {};
    count(collective, static_cast<double>(tensor.nbytes()), share_sent);
    WorkHandle pending;
    pending.state_ = std::make_shared<WorkHandle::State>();
    pending.state_->what = described(collective, tensor.nbytes());
    pending.state_->groups = groups;
    pending.state_->kept = std::move(kept);
    pending.state_->then = std::move(then);
    // A GPU starts one kernel, also in a plan. Flags on which hosts agree stay on the host.
    std::optional<NotedKernel> kernel;
    if (is_forecast(tensor) || tensor.device().type() == groups->device_.type()) {
      double moved = 0;
      for (const Tensor& each : pending.state_->kept) moved += bytes_of({each});
      kernel.emplace(collective, moved);
    }
    if (!sends) return pending;
    const at::NoGradGuard no_grad;
    call_collective(pending.state_->what, [&] {
      if constexpr (std::is_same_v<std::invoke_result_t<Start>, Works>)
        pending.state_->works = start();
      else
        pending.state_->works = {start()};
    });
    return pending;
  }

  /// Starts a send to the rank `other` or a receive from it, on the right backend.
  template <class Call>
  WorkHandle message(const char* kind, const Tensor& tensor, int64_t other, double share_sent,
                     const Call& call) {
    if (size > 1 && tensor.device().type() == groups->device_.type()) linked.insert(other);
    return start(kind, tensor, share_sent, {tensor}, [&] {
      std::vector<Tensor> tensors = {unowned_bytes(tensor)};
      if (!groups->device_.is_cuda()) return call(*group, tensors, static_cast<int>(other));
      if (!links)
        links = make_nccl_backend({c10::make_intrusive<c10d::PrefixStore>("links", store),
                                   static_cast<int>(rank), static_cast<int>(size), groups->device_,
                                   groups->ranks_.timeout, NcclRequest::Use::links});
      return call(*links, tensors, static_cast<int>(other));
    });
  }

  double share() const { return static_cast<double>(size - 1) / static_cast<double>(size); }

  WorkHandle all_reduce(const char* collective, const Tensor& tensor, c10d::ReduceOp op) {
    // the tensor is both read and written
    return start(collective, tensor, 2 * share(), {tensor, tensor}, [&] {
      std::vector<Tensor> tensors = {unowned(tensor)};
      return group->allreduce(tensors, {.reduceOp = op});
    });
  }
};

/// Collectives of compiled code are counted, waited for and named like all others.
class Group::State::CompiledWork final : public c10d::Work {
 public:
  CompiledWork(c10::intrusive_ptr<c10d::Work> inner, const State& state, size_t bytes)
      : inner_(std::move(inner)), state_(state), bytes_(bytes) {}

  bool isCompleted() override { return inner_->isCompleted(); }
  bool isSuccess() const override { return inner_->isSuccess(); }
  void synchronize() override { inner_->synchronize(); }
  bool wait(std::chrono::milliseconds timeout) override {
    bool done = false;
    const auto exposed = state_.groups->exposed_ ? state_.groups->exposed_() : nullptr;
    call_collective(state_.described("all_reduce", bytes_), [&] { done = inner_->wait(timeout); });
    return done;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return inner_->getFuture(); }

 private:
  c10::intrusive_ptr<c10d::Work> inner_;
  const State& state_;
  size_t bytes_;
};

/// The group that functional collectives of compiled code find by its name.
class Group::State::CompiledGroup final : public c10d::ProcessGroup {
 public:
  explicit CompiledGroup(const State& state)
      : c10d::ProcessGroup(state.group->getRank(), state.group->getSize()), state_(state) {}

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    size_t bytes = 0;
    for (const Tensor& tensor : tensors) {
      state_.count("all_reduce", static_cast<double>(tensor.nbytes()), 2 * state_.share());
      bytes += tensor.nbytes();
    }
    return c10::make_intrusive<CompiledWork>(inner_->allreduce(tensors, options), state_, bytes);
  }

 private:
  const State& state_;
  c10::intrusive_ptr<c10d::ProcessGroup> inner_ = state_.group;
};

Group::Group(std::unique_ptr<State> state) : state_(std::move(state)) {}
Group::~Group() {
  if (!state_->group) return;
  c10d::unregister_process_group(state_->name);
  if (!state_->groups->device_.is_cuda()) return;
  if (state_->links) end_connections(*state_->links);
  end_connections(*state_->group->getBackend(c10::DeviceType::CUDA));
}

const std::string& Group::name() const { return state_->name; }
int64_t Group::size() const { return state_->size; }
int64_t Group::rank() const { return state_->rank; }

WorkHandle Group::all_reduce(const Tensor& tensor) {
  return state_->all_reduce("all_reduce", tensor, c10d::ReduceOp::SUM);
}

WorkHandle Group::all_reduce_max(const Tensor& tensor) {
  // Flags on which hosts agree are not tensors of the model.
  const bool flags = tensor.scalar_type() == at::kByte;
  return state_->all_reduce(flags ? "bookkeeping" : "all_reduce", tensor, c10d::ReduceOp::MAX);
}

WorkHandle Group::all_gather(const Tensor& out, const Tensor& in) {
  if (size() == 1) return keep_own(out, in);
  return state_->start("all_gather", out, state_->share(), {out, in}, [&] {
    Tensor to = unowned_bytes(out), from = unowned_bytes(in);
    return gather_parts(*state_->group, to, from);
  });
}

WorkHandle Group::reduce_scatter(const Tensor& out, const Tensor& in) {
  if (size() == 1) return keep_own(out, in);
  if (form_of(in) != at::kCPU)
    return state_->start("reduce_scatter", in, state_->share(), {out, in}, [&] {
      Tensor to = out, from = in;
      return reduce_parts(*state_->group, to, from);
    });
  // Gloo's reduce_scatter sends the whole tensor 1.5 times at 4 ranks, like an all-reduce. Here each part is
  // sent once and summed in the order of ranks, so that every mesh adds in the same order.
  const Tensor arrived = at::empty_like(in);
  const int64_t ranks = size();
  return state_->start(
      "reduce_scatter", in, state_->share(), {out, in, arrived},
      [&] {
        Tensor to = unowned_bytes(arrived), from = unowned_bytes(in);
        return exchange_parts(*state_->group, to, from);
      },
      [out, arrived, ranks] {
        const at::NoGradGuard no_grad;
        const Tensor parts = arrived.view({ranks, -1}), sum = out.view(-1);
        sum.copy_(parts[0]);
        for (int64_t rank = 1; rank < ranks; ++rank) sum.add_(parts[rank]);
      });
}

WorkHandle Group::all_to_all(const Tensor& out, const Tensor& in) {
  if (size() == 1) return keep_own(out, in);
  return state_->start("all_to_all", in, state_->share(), {out, in}, [&] {
    Tensor to = unowned_bytes(out), from = unowned_bytes(in);
    return exchange_parts(*state_->group, to, from);
  });
}

WorkHandle Group::all_to_all(const Tensor& out, const std::vector<int64_t>& from, const Tensor& in,
                             const std::vector<int64_t>& to) {
  if (size() == 1) return keep_own(out, in);
  const int64_t rows = in.size(0), own = to.at(static_cast<size_t>(rank()));
  const double sent = rows == 0 ? 0 : static_cast<double>(rows - own) / static_cast<double>(rows);
  return state_->start("all_to_all", in, sent, {out, in}, [&] {
    Tensor arriving = unowned_bytes(out), leaving = unowned_bytes(in);
    return exchange_parts(*state_->group, arriving, leaving, in_entries(from, arriving.numel()),
                          in_entries(to, leaving.numel()));
  });
}

WorkHandle Group::broadcast(const Tensor& tensor, int64_t from) {
  // In a chain or tree, every rank but one sends the whole tensor once on average.
  return state_->start("broadcast", tensor, state_->share(), {tensor}, [&] {
    std::vector<Tensor> tensors = {unowned_bytes(tensor)};
    return state_->group->broadcast(tensors, {.rootRank = from});
  });
}

WorkHandle Group::send(const Tensor& tensor, int64_t to) {
  const auto& mail = state_->groups->ranks_.mail;
  if (mail && tensor.is_cpu()) mail->put(name(), rank(), to, tensor);
  return state_->message("send", tensor, to, 1, [](auto& link, std::vector<Tensor>& tensors, int there) {
    return link.send(tensors, there, /*tag=*/0);
  });
}

WorkHandle Group::receive(const Tensor& tensor, int64_t from) {
  const auto& mail = state_->groups->ranks_.mail;
  if (mail && tensor.is_cpu())
    if (const auto arrived = mail->take(name(), from, rank())) tensor.copy_(*arrived);
  return state_->message("receive", tensor, from, 0, [](auto& link, std::vector<Tensor>& tensors, int there) {
    return link.recv(tensors, there, /*tag=*/0);
  });
}

WorkHandle Group::exchange(const Tensor& out, int64_t from, const Tensor& in, int64_t to) {
  if (size() == 1) return keep_own(out, in);
  return state_->start("send", in, 1, {out, in}, [&]() -> Works {
    std::vector<Tensor> there = {unowned_bytes(in)}, here = {unowned_bytes(out)};
    c10d::ProcessGroup& group = *state_->group;
    const auto send = [&] { return group.send(there, static_cast<int>(to), /*tag=*/0); };
    const auto receive = [&] { return group.recv(here, static_cast<int>(from), /*tag=*/0); };
    if (in.is_cpu()) return {send(), receive()};
    group.startCoalescing(in.device().type());
    send();
    receive();
    return {group.endCoalescing(in.device().type())};
  });
}

Tensor Group::all_reduced(const Tensor& tensor) {
  if (size() == 1) return tensor.clone();
  if (!tracing()) {
    Tensor sum = tensor.clone(at::MemoryFormat::Contiguous);
    all_reduce(sum).wait();
    return sum;
  }
  return all_reduce_node(tensor, state_->name);
}

c10d::ProcessGroup& Group::process_group() {
  if (!state_->group)
    throw Error(ErrorCode::invalid_plugin,
                "group '" + name() + "' has no connections: it has one rank, or belongs to a plan");
  return *state_->group;
}

void Groups::connect(const Ranks& ranks, c10::intrusive_ptr<c10d::Store> store, at::Device device) {
  connected_ = true;
  ranks_ = ranks;
  store_ = std::move(store);
  device_ = device;
}

std::shared_ptr<void> Groups::bookkeeping() {
  ++bookkeeping_;
  return {static_cast<void*>(this), [this](void*) { --bookkeeping_; }};
}

Groups::~Groups() {
  // Every rank ends its groups in this order, as they wait for each other.
  while (!made_.empty()) made_.erase(made_.begin());
}

int64_t Groups::communicators() const {
  int64_t count = 0;
  for (const auto& [name, group] : made_)
    if (group->size() > 1) count += 1 + std::ssize(group->state_->linked);
  return count;
}

Group* Groups::find(const std::string& name) const {
  const auto found = made_.find(name);
  return found == made_.end() ? nullptr : found->second.get();
}

Group& Groups::make(const std::string& name, const std::vector<int64_t>& members, int64_t rank) {
  auto state = std::make_unique<Group::State>();
  state->name = name;
  state->size = static_cast<int64_t>(members.size());
  state->rank = rank;
  state->groups = this;
  state->sends = store_ && state->size > 1;
  if (state->sends) {
    // Groups with the same name but other members meet under another key.
    const std::string place = name + "@" + std::to_string(members.front());
    state->store = c10::make_intrusive<c10d::PrefixStore>("group/" + place, store_);
    state->group = make_process_group(place, state->store, rank, state->size, device_, ranks_);
    // Functional collectives find the group by a name that is equal in the code of all ranks.
    state->functional = c10::make_intrusive<Group::State::CompiledGroup>(*state);
    c10d::register_process_group(name, state->functional);
  }
  auto& group = made_[name];
  group.reset(new Group(std::move(state)));  // NOLINT: its constructor is private
  return *group;
}
}  // namespace optrush
