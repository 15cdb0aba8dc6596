#include "plugin_check/cases.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "optrush/error.h"
#include "plugin_check/small_data.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
/// A plugin with options, and what must be stacked with it.
struct Form {
  const PluginDescription* plugin = nullptr;
  PluginUse use;
  std::vector<std::string> with;
  std::string data;     ///< kind of its data
  std::string model;    ///< kind of the decoder
  bool first = false;   ///< whether it is the first form of its plugin
  std::string problem;  ///< why it can't be stacked; "": it can
  ErrorCode problem_code = ErrorCode::invalid_value;
  bool gradient = true;  ///< whether the backward is the derivative of the loss
  /// Whether its name also lists the plugins in `with` and its kind of decoder, because another form has the
  /// same options.
  bool named_with = false;
};

/// The kind of decoder whose widths and tokens are multiples of 128.
constexpr const char* kWide = "wide";

/// The fields that make the small decoder one of this kind (CheckedForm::model).
Json decoder_fields(const std::string& kind) {
  if (kind == "experts") return {{"n_experts", 3}, {"experts_per_token", 2}};
  if (kind == "delta_net")
    return {{"delta_net", {{"key_heads", 2}, {"value_heads", 4}, {"key_dim", 8}, {"value_dim", 6}}},
            {"full_attention_layers", {1}},
            {"init_std", 0.05}};  // the lengths of queries and keys are not near 0
  if (kind == kWide) return {{"dim", 128}, {"ffn_dim", 128}, {"n_kv_heads", 4}};
  return Json::object();
}

RunSpec small_spec(const SmallModel& model, const CheckRequest& request, std::vector<PluginUse> stack) {
  RunSpec spec;
  spec.experiment = "check";
  spec.model_kind = model.kind;
  spec.model = validate_model(model.kind, model.fields, "check");
  // Three warm-up steps, because a technique may record the last of them and replay it in the next step.
  spec.train = {.micro_batch = 4, .seq_len = 16, .steps = 1, .warmup = 3, .lr = 1e-2};
  spec.device = request.device;
  spec.plugins = std::move(stack);
  spec.plugin_path = request.plugin_path;
  return spec;
}

std::string name_of(const Form& form) {
  std::vector<std::string> options;
  for (const auto& [key, value] : form.use.options.items())
    options.push_back(key + "=" + (value.is_string() ? value.get<std::string>() : value.dump()));
  std::vector<std::string> beside = form.named_with ? form.with : std::vector<std::string>();
  if (form.named_with && form.model != "dense") beside.push_back(form.model);
  return form.use.name + (options.empty() ? "" : "(" + join(options) + ")") +
         (beside.empty() ? "" : " with " + join(beside, " and "));
}

/// The smallest allowed value of a required option; null if the schema has none.
Json some_value(const OptionSchema& option) {
  if (!option.choices.empty())
    return option.type == "list" ? Json::array({option.choices.front()}) : Json(option.choices.front());
  if (option.type == "boolean") return true;
  if (option.type != "integer" && option.type != "number") return nullptr;
  if (!option.min.is_null()) return option.min;
  return option.max.is_null() ? Json(1) : option.max;
}

/// `given`, with values for the other required options.
Json with_required(const PluginDescription& plugin, Json given) {
  for (const OptionSchema& option : plugin.options)
    if (option.fallback.is_null() && !given.contains(option.name))
      if (Json value = some_value(option); !value.is_null()) given[option.name] = std::move(value);
  return given;
}

Form made(const PluginDescription& plugin, const CheckedForm& form, bool first) {
  Form result{
      &plugin, {plugin.name, with_required(plugin, form.options)}, plugin.requirements, form.data, form.model,
      first};
  result.gradient = form.gradient;
  result.with.insert(result.with.end(), form.with.begin(), form.with.end());
  try {
    Options(plugin.options, result.use.options, "");
  } catch (const Error& e) {
    result.problem_code = e.code();
    result.problem = e.message() + R"(; give "check": [{"options": {...}}] in its description)";
  }
  return result;
}

std::vector<Form> forms_of(const PluginDescription& plugin, const CheckRequest& request) {
  std::vector<Form> forms;
  for (const PluginUse& asked : request.plugins) {
    if (asked.name != plugin.name || asked.options.empty()) continue;
    try {
      Options(plugin.options, with_required(plugin, asked.options), "--plugin " + plugin.name);
    } catch (const Error& e) {
      throw UsageError(e);
    }
    CheckedForm form = plugin.checks.empty() ? CheckedForm{} : plugin.checks.front();
    form.options = asked.options;
    forms.push_back(made(plugin, form, forms.empty()));
  }
  if (!forms.empty()) return forms;
  for (const CheckedForm& form : plugin.checks) forms.push_back(made(plugin, form, forms.empty()));
  if (forms.empty()) forms.push_back(made(plugin, {}, true));
  return forms;
}

/// The order of the kinds. Compiling one stack takes as long as many pairs. So compiled cases come before the
/// pairs only if they show something new: other types in the compiled code, or code for a GPU.
int place_in_order(CheckKind kind, const std::vector<const Form*>& forms) {
  if (kind != CheckKind::compiled || forms.size() < 2) return static_cast<int>(kind);
  const bool telling = std::ranges::any_of(forms, [](const Form* form) {
    const PluginDescription& plugin = *form->plugin;
    return plugin.effect_with(form->use.options) == Effect::precision ||
           std::ranges::count(plugin.needs, "cuda") != 0;
  });
  return telling ? static_cast<int>(kind) : static_cast<int>(CheckKind::pair) + 1;
}

class Cases {
 public:
  Cases(const CheckRequest& request, const Catalogue& catalogue, const MachineOffer& offer)
      : request_(request), offer_(offer) {
    // throws an Error for an unknown plugin
    for (const PluginUse& asked : request.plugins) catalogue.at(asked.name);
    for (const auto& plugin : catalogue.plugins())
      for (Form& form : forms_of(plugin, request)) {
        const auto alike = [&](const Form& other) { return name_of(other) == name_of(form); };
        form.named_with = std::ranges::any_of(forms_, alike);
        forms_.push_back(std::move(form));
      }
  }

  std::vector<CheckCase> all() {
    for (const Form& form : forms_) alone(form);
    for (size_t i = 0; i < forms_.size(); ++i)
      for (size_t j = i + 1; j < forms_.size(); ++j) pair(forms_[i], forms_[j]);
    std::ranges::stable_sort(cases_, {}, &Placed::place);
    std::vector<CheckCase> sorted;
    for (Placed& each : cases_) sorted.push_back(std::move(each.made));
    return sorted;
  }

 private:
  struct Placed {
    int place;
    CheckCase made;
  };
  std::set<std::string> known_;

  void alone(const Form& form) {
    const auto stack = stack_of({&form});
    const bool slow = compiles(stack);
    for (const SmallModel& model : small_models()) {
      if (!model.has_layers && (slow || form.plugin->effect == Effect::batch)) continue;
      if (!model.compiled && slow) continue;
      // Its first model already has them, or these choices do not apply to it.
      if (form.model == "experts" && model.fields.contains("n_experts")) continue;
      if (form.model == kWide && model.kind != "llama") continue;
      if (form.model == "delta_net" &&
          (model.fields.contains("window") || model.fields.contains("delta_net")))
        continue;
      const std::string on = model.name == "llama" ? "" : " on " + model.name;
      add(slow ? CheckKind::compiled : CheckKind::alone, {&form}, stack, model, on);
    }
    if (slow) return;
    if (form.gradient) add(CheckKind::gradient, {&form}, stack, small_models().front(), "");
    add(CheckKind::types, {&form}, stack, small_models().front(), "");
    add(CheckKind::resume, {&form}, stack, small_models().front(), "");
  }

  void pair(const Form& a, const Form& b) {
    if (a.plugin == b.plugin) return;
    const auto stack = stack_of({&a, &b});
    // If one plugin is stacked with the other anyway, there is no pair to check.
    if (stack.size() == stack_of({&a}).size() || stack.size() == stack_of({&b}).size()) return;
    const bool slow = compiles(stack);
    if (slow && !(a.first && b.first)) return;
    add(slow ? CheckKind::compiled : CheckKind::pair, {&a, &b}, stack, small_models().front(), "");
  }

  void add(CheckKind kind, const std::vector<const Form*>& forms, const std::vector<PluginUse>& stack,
           const SmallModel& model, const std::string& on) {
    if (!request_.kinds.empty() && std::ranges::count(request_.kinds, kind) == 0) return;
    CheckCase made{.kind = kind, .spec = small_spec(model, request_, stack)};
    const auto decoders = model.kind == "llama" ? decoders_of(forms, stack) : std::set<std::string>();
    const bool well_conditioned =
        model.well_conditioned &&
        std::ranges::all_of(decoders, [](const auto& kind) { return kind == "dense" || kind == kWide; });
    made.without_values = request_.without_values || (!well_conditioned && lowers_precision(stack));
    for (const std::string& decoder : decoders) made.spec.model.update(decoder_fields(decoder));
    if (decoders.contains(kWide)) made.spec.train.micro_batch *= 2;
    std::vector<std::string> names;
    const auto data = data_of(forms, stack);
    if (!data.empty()) made.spec.data = small_data(*data.begin());
    const auto skip = [&made](const std::string& reason, ErrorCode code) {
      if (!made.skip.empty() || reason.empty()) return;
      made.skip = reason;
      made.skip_code = code;
    };
    if (data.size() > 1)
      skip("they train on different data: " + join({data.begin(), data.end()}), ErrorCode::conflict);
    for (const Form* form : forms) {
      names.push_back(name_of(*form));
      made.subjects.push_back(form->plugin->name);
      skip(form->problem, form->problem_code);
    }
    if (!asked_for(made.subjects)) return;
    made.id = std::string(to_string(kind)) + ": " + join(names, " + ") + on;
    skip(clash(forms), ErrorCode::conflict);
    skip(unmet(stack), ErrorCode::missing_requirement);
    if (request_.without_values && made.spec.model.value("n_experts", 0) > 0 && request_.device == "cuda")
      skip("the host reads how many tokens each expert has, and nothing is computed", ErrorCode::unsupported);
    // Two forms may lead to the same stack.
    if (!known_.insert(std::string(to_string(kind)) + to_json(made.spec).dump()).second) return;
    cases_.push_back({place_in_order(kind, forms), std::move(made)});
  }

  /// The kinds of data that the forms need, including those of plugins stacked with them.
  std::set<std::string> data_of(const std::vector<const Form*>& forms,
                                const std::vector<PluginUse>& stack) const {
    std::set<std::string> kinds;
    const auto ask = [&](const Form* form) {
      if (form != nullptr && form->data != "random") kinds.insert(form->data);
    };
    std::ranges::for_each(forms, ask);
    for (const PluginUse& use : stack) ask(first_form(use.name));
    return kinds;
  }

  /// The kinds of decoder that the forms and the plugins stacked with them need.
  std::set<std::string> decoders_of(const std::vector<const Form*>& forms,
                                    const std::vector<PluginUse>& stack) const {
    std::set<std::string> kinds;
    const auto ask = [&](const Form* form) {
      if (form != nullptr) kinds.insert(form->model);
    };
    std::ranges::for_each(forms, ask);
    for (const PluginUse& use : stack) ask(first_form(use.name));
    return kinds;
  }

  bool lowers_precision(const std::vector<PluginUse>& stack) const {
    return std::ranges::any_of(stack, [&](const PluginUse& use) {
      const Form* form = first_form(use.name);
      return form != nullptr && form->plugin->effect_with(use.options) == Effect::precision;
    });
  }

  bool asked_for(const std::vector<std::string>& subjects) const {
    return request_.plugins.empty() || std::ranges::any_of(request_.plugins, [&](const PluginUse& asked) {
             return std::ranges::count(subjects, asked.name) != 0;
           });
  }

  const Form* first_form(const std::string& name) const {
    const auto found = std::ranges::find_if(
        forms_, [&](const Form& form) { return form.first && form.plugin->name == name; });
    return found == forms_.end() ? nullptr : &*found;
  }

  /// The forms and the plugins that must be stacked with them, in their first form. An unknown name stays:
  /// the run reports it.
  std::vector<PluginUse> stack_of(const std::vector<const Form*>& forms) const {
    std::vector<PluginUse> stack;
    std::vector<std::string> with;
    for (const Form* form : forms) {
      stack.push_back(form->use);
      with.insert(with.end(), form->with.begin(), form->with.end());
    }
    for (size_t i = 0; i < with.size(); ++i) {
      if (std::ranges::count(stack, with[i], &PluginUse::name) != 0) continue;
      const Form* other = first_form(with[i]);
      stack.push_back(other != nullptr ? other->use : PluginUse{with[i]});
      if (other != nullptr) with.insert(with.end(), other->with.begin(), other->with.end());
    }
    return stack;
  }

  /// Whether the stack compiles in a step. Such cases take long, so there are few, and they come last.
  bool compiles(const std::vector<PluginUse>& stack) const {
    return std::ranges::any_of(stack, [&](const PluginUse& use) {
      const Form* form = first_form(use.name);
      return form != nullptr && std::ranges::count(form->plugin->needs, "compiler") != 0;
    });
  }

  std::string unmet(const std::vector<PluginUse>& stack) const {
    for (const PluginUse& use : stack)
      if (const Form* form = first_form(use.name); form != nullptr)
        if (const std::string reason = unmet_needs(form->plugin->needs, offer_); !reason.empty())
          return use.name + " " + reason;
    return {};
  }

  /// Why two forms can't be stacked because of the plugins that they bring; "": they can.
  std::string clash(const std::vector<const Form*>& forms) const {
    if (forms.size() < 2) return {};
    for (const std::string& one : forms[0]->with)
      for (const std::string& other : forms[1]->with)
        if (conflict(one, other) || conflict(other, one))
          return "their \"check\" forms stack '" + one + "' and '" + other + "', which conflict";
    return {};
  }

  bool conflict(const std::string& name, const std::string& other) const {
    const Form* form = first_form(name);
    return form != nullptr && std::ranges::count(form->plugin->conflicts, other) != 0;
  }

  const CheckRequest& request_;
  const MachineOffer& offer_;
  std::vector<Form> forms_;
  std::vector<Placed> cases_;
};
}  // namespace

static Record<CheckCase> record_of(const CheckCase*) {
  using T = CheckCase;
  return Record<T>::given("case")
      .field("id", &T::id, "identifier of the case", {.required = true})
      .field("kind", &T::kind, "kind of the case", {.required = true})
      .field("subjects", &T::subjects, "plugins that the case checks", {.required = true})
      .field("spec", &T::spec, "the run that it trains", {.required = true})
      .field("skip", &T::skip, "why the case cannot run here")
      .field("skip_code", &T::skip_code, "kind of that error")
      .field("without_values", &T::without_values, "nothing is compared");
}

std::vector<SmallModel> small_models() {
  const Json llama = {{"vocab_size", 64}, {"dim", 32},       {"n_layers", 2},
                      {"n_heads", 4},     {"n_kv_heads", 2}, {"ffn_dim", 48}};
  const auto with = [&](Json choices) {
    choices.update(llama);
    return choices;
  };
  std::vector<SmallModel> models = {
      {"llama", "llama", llama},
      {.name = "a decoder with biases, norms and windows",
       .kind = "llama",
       .fields = with({{"attention_bias", "qkv"},
                       {"qk_norm", "per_head"},
                       {"norm_placement", "after"},
                       {"window", 6},
                       {"full_attention_layers", {1}},
                       {"layers_without_rope", {0}},
                       {"init_std", 0.1}}),
       .compiled = false,
       .well_conditioned = false},
      {.name = "a decoder with soft caps",
       .kind = "llama",
       .fields = with({{"attention_soft_cap", 0.5}, {"logits_soft_cap", 0.5}, {"init_std", 0.2}}),
       .compiled = false,
       .well_conditioned = false},
      {.name = "a mixture of experts",
       .kind = "llama",
       .fields = with(decoder_fields("experts")),
       .compiled = false,
       .well_conditioned = false},
      {.name = "a decoder with Gated DeltaNet",
       .kind = "llama",
       .fields = with(decoder_fields("delta_net")),
       .compiled = false,
       .well_conditioned = false},
      {"operator mlp", "operator", {{"op", "mlp"}, {"dim", 32}, {"ffn_dim", 48}, {"repeat", 3}}}};
  for (const char* op : {"norm", "add_norm", "position", "attention", "swiglu", "linear", "head_loss"})
    models.push_back({.name = std::string("operator ") + op,
                      .kind = "operator",
                      .fields = {{"op", op}, {"dim", 32}, {"n_heads", 4}, {"vocab_size", 64}},
                      .has_layers = false});
  return models;
}

Json to_json(const CheckCase& c) { return fields_of<CheckCase>().write(c); }
CheckCase check_case_from_json(const Json& json, const std::string& where) {
  return fields_of<CheckCase>().read(json, where);
}

bool keeps_its_bits(const CheckCase& c, const Catalogue& catalogue) {
  return std::ranges::none_of(c.spec.plugins, [&](const PluginUse& use) {
    return catalogue.at(use.name).effect_with(use.options) == Effect::precision;
  });
}

std::vector<CheckCase> check_cases(const CheckRequest& request, const Catalogue& catalogue,
                                   const MachineOffer& offer) {
  return Cases(request, catalogue, offer).all();
}
}  // namespace optrush
