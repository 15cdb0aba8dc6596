#include "cudnn/graph.h"

#include <optional>

#include "optrush/error.h"

#ifdef OPTRUSH_HAS_CUDNN
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <c10/cuda/CUDAStream.h>
#include <cudnn_frontend.h>

/// The header looks up cuDNN's functions in this library. Null stands for the process: libtorch_cuda has
/// loaded cuDNN.
void* cudnn_frontend::cudnn_dlhandle = nullptr;
#endif

namespace optrush::flash::cudnn {
int64_t number_of(Operand operand) { return static_cast<int64_t>(operand) + 1; }
int64_t number_of(Starts starts) { return number_of(starts.of) + 100; }

#ifdef OPTRUSH_HAS_CUDNN
namespace {
namespace fe = cudnn_frontend;
using Node = std::shared_ptr<fe::graph::Tensor_attributes>;

void check(fe::error_t status) {
  if (status.is_bad())
    throw Error(ErrorCode::internal, "cuDNN has no kernel for this attention: " + status.get_message(),
                "use kernel = \"flash\"");
}

using Sizes = std::vector<int64_t>;

/// Soft cap and mask of scores. cuDNN calls these functions when it lays out the graph, so they are copied.
class Cap {
 public:
  using Scores = std::shared_ptr<fe::graph::Graph>;
  explicit Cap(const Form& form) : cap_(form.soft_cap), window_(form.window), causal_(form.causal) {}

  Node forward(const Scores& graph, const Node& score) const {
    *part_ = times(graph, score, 1 / cap_);
    const Node capped = times(graph, graph->pointwise(*part_, mode(fe::PointwiseMode_t::TANH_FWD)), cap_);
    const auto left = window_ != 0 ? std::optional(window_) : std::nullopt;
    const auto right = causal_ ? std::optional<int64_t>(0) : std::nullopt;
    if (!left && !right) return capped;
    return fe::graph::attn::score_modifiers::sliding_window_mask(
        graph, capped, fe::DiagonalAlignment_t::TOP_LEFT, left, right, 0, 0, nullptr, nullptr);
  }
  Node backward(const Scores& graph, const Node& gradient) const {
    return graph->pointwise(gradient, *part_, mode(fe::PointwiseMode_t::TANH_BWD));
  }

 private:
  static fe::graph::Pointwise_attributes mode(fe::PointwiseMode_t mode) {
    return fe::graph::Pointwise_attributes().set_mode(mode);
  }
  static Node times(const Scores& graph, const Node& x, double factor) {
    return graph->pointwise(x, graph->tensor(static_cast<float>(factor)), mode(fe::PointwiseMode_t::MUL));
  }

  double cap_;
  int64_t window_;
  bool causal_;
  std::shared_ptr<Node> part_ = std::make_shared<Node>();  ///< score / cap, which the backward reads again
};

/// Adds the tensors of a form to a graph.
class Builder {
 public:
  Builder(const Form& form, fe::graph::Graph& graph) : form_(form), graph_(graph) {}

  void forward() {
    auto attributes = fe::graph::SDPA_attributes().set_generate_stats(true);
    describe(attributes);
    if (form_.soft_cap != 0)
      attributes.set_score_mod(
          [cap = Cap(form_)](const auto& graph, const Node& score) { return cap.forward(graph, score); });
    const auto [out, lse] = graph_.sdpa(given(Operand::q), given(Operand::k), given(Operand::v), attributes);
    result(out, Operand::out, form_.heads, form_.queries, form_.value_width);
    lay_out(lse, Operand::lse).set_output(true).set_data_type(fe::DataType_t::FLOAT);
  }

  void backward() {
    auto attributes = fe::graph::SDPA_backward_attributes();
    describe(attributes);
    if (form_.soft_cap != 0) {
      const Cap cap(form_);
      attributes
          .set_score_mod([cap](const auto& graph, const Node& score) { return cap.forward(graph, score); })
          .set_score_mod_bprop(
              [cap](const auto& graph, const Node& gradient) { return cap.backward(graph, gradient); });
    }
    if (form_.of_documents())
      attributes.set_max_total_seq_len_q(form_.positions).set_max_total_seq_len_kv(form_.positions);
    const Node lse = graph_.tensor({});
    lay_out(lse, Operand::lse).set_data_type(fe::DataType_t::FLOAT);
    const auto [dq, dk, dv] =
        graph_.sdpa_backward(given(Operand::q), given(Operand::k), given(Operand::v), given(Operand::out),
                             given(Operand::gradient), lse, attributes);
    result(dq, Operand::dq, form_.heads, form_.queries, form_.width);
    result(dk, Operand::dk, form_.groups, form_.keys, form_.width);
    result(dv, Operand::dv, form_.groups, form_.keys, form_.value_width);
  }

 private:
  template <class Attributes>
  void describe(Attributes& attributes) {
    attributes.set_name("attention").set_attn_scale(static_cast<float>(form_.scale));
    if (form_.soft_cap != 0) return;  // the mask follows the cap
    if (form_.causal || form_.window != 0)
      attributes.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT);
    if (form_.causal) attributes.set_diagonal_band_right_bound(0);
    if (form_.window != 0) attributes.set_diagonal_band_left_bound(form_.window);
    if (!form_.of_documents()) return;
    const Node lengths = numbers(number_of(Operand::lengths), form_.sequences);
    attributes.set_padding_mask(true).set_seq_len_q(lengths).set_seq_len_kv(lengths);
  }

  Node numbers(int64_t number, int64_t count) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_uid(number)
                             .set_dim({count, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(fe::DataType_t::INT32));
  }

  fe::graph::Tensor_attributes& place(const Node& tensor, Operand operand, Sizes sizes,
                                      const Strides& strides) {
    tensor->set_uid(number_of(operand))
        .set_dim(std::move(sizes))
        .set_stride({strides.sequence, strides.head, strides.position, 1});
    if (form_.of_documents())
      tensor->set_ragged_offset(numbers(number_of(Starts{operand}), form_.sequences + 1));
    return *tensor;
  }

  Node given(Operand operand) {
    const bool of_queries = operand == Operand::q || operand == Operand::out || operand == Operand::gradient;
    const bool of_scores = operand == Operand::q || operand == Operand::k;
    const Node tensor = graph_.tensor({});
    place(tensor, operand,
          {form_.sequences, of_queries ? form_.heads : form_.groups, of_queries ? form_.queries : form_.keys,
           of_scores ? form_.width : form_.value_width},
          form_.strides[static_cast<size_t>(operand)]);
    return tensor;
  }

  void result(const Node& tensor, Operand operand, int64_t heads, int64_t positions, int64_t width) {
    place(tensor, operand, {form_.sequences, heads, positions, width},
          {positions * heads * width, width, heads * width})
        .set_output(true);
  }

  fe::graph::Tensor_attributes& lay_out(const Node& lse, Operand operand) {
    const Strides by_heads{form_.heads * form_.queries, form_.queries, 1};
    const Strides by_positions{form_.heads * form_.queries, 1, form_.heads};
    return place(lse, operand, {form_.sequences, form_.heads, form_.queries, 1},
                 form_.of_documents() ? by_positions : by_heads);
  }

  const Form& form_;
  fe::graph::Graph& graph_;
};
}  // namespace

struct Graph::Made {
  Made(const Form& form, const std::string& architecture) {
    graph.set_io_data_type(form.type == at::kHalf ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT)
        .set_sm_version(std::stoi(architecture.substr(architecture.find('_') + 1)));
    Builder builder(form, graph);
    if (form.backward)
      builder.backward();
    else
      builder.forward();
  }
  void compile(fe::error_t operations) {
    check(std::move(operations));
    check(graph.create_execution_plans({fe::HeurMode_t::A}));
    check(graph.check_support());
    check(graph.build_plans());
  }
  fe::graph::Graph graph;
  std::shared_ptr<void> handle;
};

bool built() { return true; }

std::shared_ptr<void> new_handle() {
  cudnnHandle_t handle = nullptr;
  if (fe::detail::create_handle(&handle) != CUDNN_STATUS_SUCCESS)
    throw Error(ErrorCode::internal, "cuDNN did not start");
  return {handle, [](void* made) { fe::detail::destroy_handle(static_cast<cudnnHandle_t>(made)); }};
}

Graph::Graph(const Form& form, const std::string& architecture, std::shared_ptr<void> handle)
    : made_(std::make_unique<Made>(form, architecture)) {
  made_->handle = std::move(handle);
  check(made_->graph.validate());
  made_->compile(made_->graph.build_operation_graph(static_cast<cudnnHandle_t>(made_->handle.get())));
}

Graph::Graph(const Form& form, const std::string& architecture, const Card& card)
    : made_(std::make_unique<Made>(form, architecture)) {
  const auto properties = std::make_shared<fe::DeviceProperties>();
  check(properties->deserialize({card.properties.begin(), card.properties.end()}));
  made_->graph.set_device_properties(properties);
  check(made_->graph.validate());
  made_->compile(made_->graph.build_operation_graph());
}

int64_t Graph::workspace_bytes() const {
  int64_t bytes = 0;
  check(made_->graph.get_workspace_size(bytes));
  return bytes;
}

void Graph::run(const std::unordered_map<int64_t, void*>& memory, void* workspace) const {
  const auto handle = static_cast<cudnnHandle_t>(made_->handle.get());
  if (fe::detail::set_stream(handle, c10::cuda::getCurrentCUDAStream().stream()) != CUDNN_STATUS_SUCCESS)
    throw Error(ErrorCode::internal, "cuDNN refuses the stream");
  std::unordered_map<int64_t, void*> pack = memory;
  check(made_->graph.execute(handle, pack, workspace));
}
#else
namespace {
[[noreturn]] void is_missing() {
  throw Error(ErrorCode::missing_requirement, "this build has no cuDNN graphs",
              "install nvidia-cudnn-frontend beside the LibTorch of the build, and build again");
}
}  // namespace
struct Graph::Made {};
bool built() { return false; }
std::shared_ptr<void> new_handle() { is_missing(); }
Graph::Graph(const Form&, const std::string&, std::shared_ptr<void>) { is_missing(); }
Graph::Graph(const Form&, const std::string&, const Card&) { is_missing(); }
int64_t Graph::workspace_bytes() const { is_missing(); }
void Graph::run(const std::unordered_map<int64_t, void*>&, void*) const { is_missing(); }
#endif

Graph::Graph(Graph&&) noexcept = default;
Graph::~Graph() = default;
}  // namespace optrush::flash::cudnn
