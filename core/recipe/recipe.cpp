#include "recipe/run_recipe.h"

#include <algorithm>
#include <array>

#include "optrush/error.h"
#include "recipe/boundary.h"

namespace optrush {
namespace {
Traits plain(std::vector<Feature> offers = {feature::fp64}) {
  return {.trace = Trace::aten, .capturable = true, .offers = std::move(offers)};
}
}  // namespace

Ops::Ops(const Editor* editor)
    : embedding("embedding", editor, plain()),
      router("router", editor, plain()),
      routing("routing", editor, plain()),
      experts("experts", editor, plain()),
      linear("linear", editor, plain({feature::fp64, feature::plain_products})),
      norm("norm", editor, plain()),
      add_norm("add_norm", editor, plain()),
      position("position", editor, plain()),
      attention("attention", editor,
                plain({feature::fp64, feature::lse, feature::segments, feature::window, feature::alibi,
                       feature::soft_cap, feature::value_width})),
      attention_forward_backward(
          "attention_forward_backward", editor,
          plain({feature::fp64, feature::segments, feature::window, feature::alibi, feature::soft_cap})),
      convolution("convolution", editor, plain({feature::fp64, feature::biases})),
      delta_rule("delta_rule", editor, plain({feature::fp64, feature::uncorrected})),
      swiglu("swiglu", editor, plain()),
      geglu("geglu", editor, plain()),
      mlp("mlp", editor,
          plain({feature::fp64, feature::geglu, feature::ungated, feature::plain_products, feature::biases})),
      head_loss("head_loss", editor, plain({feature::fp64, feature::vocabulary, feature::soft_cap})) {}

std::vector<const SlotInfo*> Ops::all() const {
  return {&embedding,   &router,     &routing,  &experts,   &linear,
          &norm,        &add_norm,   &position, &attention, &attention_forward_backward,
          &convolution, &delta_rule, &swiglu,   &geglu,     &mlp,
          &head_loss};
}

Recipe::Recipe(RunSpec spec)
    : spec_(std::move(spec)),
      record_(std::make_unique<Record>()),
      mesh(record_->mesh),
      ops(&editor_),
      unit("unit", &editor_, plain()),
      data("data", &editor_, {}),
      rows("rows", &editor_, plain()),
      stages("stages", &editor_, {}),
      data_parallel("data_parallel", &editor_, plain({feature::fp64, feature::deferred_weight_gradients})),
      loss_gradient("loss_gradient", &editor_, plain()),
      gradients("gradients", &editor_, plain()),
      optimizer("optimizer", &editor_, {.offers = {feature::fp64}}),
      schedule("schedule", &editor_, plain()),
      evaluation("evaluation", &editor_, plain()) {}

Recipe::~Recipe() = default;

std::vector<const SlotInfo*> Recipe::slots() const {
  auto all = ops.all();
  all.insert(all.end(), {&unit, &data, &rows, &stages, &data_parallel, &loss_gradient, &gradients, &optimizer,
                         &schedule, &evaluation});
  return all;
}

Scopes::Entered Scopes::enter() const {
  std::vector<Guard> guards;
  guards.reserve(scopes_.size());
  for (const auto& scope : scopes_) guards.push_back(scope.enter());
  return Entered(std::move(guards));
}

std::string_view to_string(ActivationPolicy::Kind kind) {
  constexpr std::array<std::string_view, 3> kKinds = {"save", "selective", "budget"};
  static_assert(kKinds.size() == static_cast<size_t>(ActivationPolicy::Kind::budget) + 1);
  return kKinds.at(static_cast<size_t>(kind));
}

std::string_view to_string(Event event) {
  constexpr std::array<std::string_view, 7> kEvents = {
      "mesh_initialized", "meta_initialized", "materialized", "ready", "step_begin", "step_end", "finished"};
  static_assert(kEvents.size() == static_cast<size_t>(Event::finished) + 1);
  return kEvents.at(static_cast<size_t>(event));
}

void Recipe::keep_activations(ActivationPolicy policy) {
  claim(&record_->activations, record_->activations == policy);
  record_->activations = std::move(policy);
}

const ActivationPolicy& Recipe::activations() const { return record_->activations; }

const Scopes& Recipe::scopes() const { return record_->scopes; }

void Recipe::describe(std::string format, Json description) {
  Json& known = record_->descriptions[std::move(format)];
  claim(&known, false);
  known = std::move(description);
}

void Recipe::learn_from(std::string kind) {
  editor_.check_open("the data that it learns from");
  record_->learned.insert(std::move(kind));
}

void Recipe::scope(Phase phase, std::function<std::shared_ptr<void>()> enter) {
  editor_.check_open("a scope");
  auto& scopes = record_->scopes.scopes_;
  scopes.push_back({{phase, editor_.name, {}}, std::move(enter)});
  // Outermost first: a later phase comes first.
  std::stable_sort(scopes.begin(), scopes.end(),
                   [](const auto& a, const auto& b) { return b.edit < a.edit; });
}

void Recipe::on(Event event, Phase phase, std::function<void(Run&)> call) {
  editor_.check_open("a handler of event " + std::string(to_string(event)));
  auto& handlers = record_->handlers;
  handlers.push_back({event, {phase, editor_.name, {}}, std::move(call)});
  std::stable_sort(handlers.begin(), handlers.end(),
                   [](const auto& a, const auto& b) { return a.edit < b.edit; });
}

void Recipe::keep(std::string name, std::function<Tensor()> view, Kept whose) {
  editor_.check_open("kept state");
  record_->kept.push_back({editor_.name + "/" + std::move(name), std::move(view), whose});
}

void Recipe::counter(Counter counter, std::function<double()> read) {
  editor_.check_open("a counter");
  constexpr size_t kLongestName = 40, kLongestUnit = 16;
  constexpr std::ptrdiff_t kMost = 16;
  const auto is_text = [](const std::string& text, size_t longest) {
    return text.size() <= longest && std::ranges::none_of(text, [](char c) {
             return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
           });
  };
  const std::string subject = "plugin '" + editor_.name + "': counter '" + counter.name + "'";
  if (counter.name.empty() || !is_text(counter.name, kLongestName))
    throw Error(ErrorCode::invalid_plugin, subject + " has an invalid name",
                "give one line of 1 to 40 bytes: it is a column title in the report");
  if (!is_text(counter.unit, kLongestUnit))
    throw Error(ErrorCode::invalid_plugin, subject + " has the unit '" + counter.unit + "'",
                "give one line of at most 16 bytes");
  if (!read) throw Error(ErrorCode::invalid_plugin, subject + " has no read function");
  auto& counters = record_->counters;
  const auto own = [&](const Record::Counted& counted) { return counted.plugin == editor_.name; };
  if (std::ranges::count_if(counters, own) == kMost)
    throw Error(ErrorCode::invalid_plugin, subject + " exceeds the maximum of 16 counters",
                "declare fewer counters");
  for (const Record::Counted& counted : counters)
    if (own(counted) && counted.counter.name == counter.name)
      throw Error(ErrorCode::invalid_plugin, subject + " is declared twice",
                  "give each counter a unique name");
  counters.push_back({editor_.name, std::move(counter), std::move(read)});
}

void RunRecipe::fire(Event event, Run& run) const {
  for (const auto& handler : record_->handlers) {
    if (handler.event != event) continue;
    const std::string where =
        "plugin '" + handler.edit.plugin + "' in event " + std::string(to_string(event));
    call_plugin(where, [&] { handler.call(run); });
  }
}

void Recipe::claim(const void* field, bool same_value) {
  editor_.check_open("a training field");
  const auto [owner, fresh] = record_->claims.try_emplace(field, editor_.name);
  if (!fresh && owner->second != editor_.name && !same_value)
    throw Error(ErrorCode::conflict,
                "plugins '" + owner->second + "' and '" + editor_.name +
                    "' set the same training field to different values",
                "stack one of them");
}

Json RunRecipe::description(const std::string& format) const {
  const auto found = record_->descriptions.find(format);
  return found == record_->descriptions.end() ? Json() : found->second;
}

void RunRecipe::check() const {
  for (const SlotInfo* slot : slots()) slot->check();
}
}  // namespace optrush
