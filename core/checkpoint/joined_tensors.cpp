#include "checkpoint/joined_tensors.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "checkpoint/nemotron_h.h"

namespace optrush {
namespace {
/// A parameter below a layer: "model.layers.3.", "mlp.experts.*.up_proj.weight" and its expert.
struct BelowLayer {
  std::string layer, rest;
  int64_t expert = -1;
};

std::optional<BelowLayer> below_layer(const std::string& name) {
  constexpr std::string_view kLayers = "model.layers.", kExperts = ".experts.";
  const size_t end = name.find('.', kLayers.size());
  if (!name.starts_with(kLayers) || end == std::string::npos) return std::nullopt;
  BelowLayer found{name.substr(0, end + 1), name.substr(end + 1)};
  if (const size_t experts = name.find(kExperts, end); experts != std::string::npos) {
    const size_t first = experts + kExperts.size(), point = name.find('.', first);
    found.expert = std::stoll(name.substr(first, point - first));
    found.rest = name.substr(end + 1, first - end - 1) + "*" + name.substr(point);
  }
  return found;
}

std::vector<int64_t> shape_of(std::vector<int64_t> part, int64_t rows, bool transposed, int64_t experts) {
  part.front() = rows;
  if (transposed) std::swap(part.front(), part.back());
  if (experts > 0) part.insert(part.begin(), experts);
  return part;
}
}  // namespace

JoinedTensors::JoinedTensors(const std::vector<NamedShape>& model, const Storage& storage) {
  if (storage.names == ParameterNames::nemotron_h)
    for (const auto& [name, shape] : model)
      if (std::string stored = name_by_layer(name, storage.layers_without_mlp); stored != name)
        places_[name] = {.tensor = {std::move(stored), shape}, .rows = shape.front()};
  if (storage.joined.empty()) return;
  std::vector<std::optional<BelowLayer>> found;
  for (const NamedShape& parameter : model) found.push_back(below_layer(parameter.name));
  std::map<std::string, int64_t> rows, experts;  // of each tensor
  for (const JoinedTensor& joined : storage.joined)
    // Rows are counted in the order of the parts, because `model` may have another order.
    for (size_t place = 0; place < joined.parts.size(); ++place)
      for (size_t i = 0; i < model.size(); ++i) {
        const auto& [name, shape] = model[i];
        const auto& below = found[i];
        if (!below || below->rest != joined.parts[place]) continue;
        const std::string tensor = below->layer + joined.name;
        experts[tensor] = std::max(experts[tensor], below->expert + 1);
        // All experts have the same rows.
        const int64_t before = below->expert > 0 ? static_cast<int64_t>(place) * shape.front() : rows[tensor];
        if (below->expert <= 0) rows[tensor] += shape.front();
        places_[name] = {.tensor = {tensor, shape},
                         .expert = below->expert,
                         .first = joined.alternating ? static_cast<int64_t>(place) : before,
                         .step = joined.alternating ? std::ssize(joined.parts) : 1,
                         .rows = shape.front(),
                         .transposed = joined.transposed};
      }
  for (auto& [name, place] : places_)
    place.tensor.shape = shape_of(place.tensor.shape, rows.at(place.tensor.name), place.transposed,
                                  experts.at(place.tensor.name));
}

const PlaceInFile* JoinedTensors::find(const std::string& parameter) const {
  const auto found = places_.find(parameter);
  return found == places_.end() ? nullptr : &found->second;
}

std::vector<NamedShape> JoinedTensors::in_file(const std::vector<NamedShape>& parameters) const {
  std::vector<NamedShape> tensors;
  std::set<std::string> seen;
  for (const NamedShape& parameter : parameters) {
    const PlaceInFile* place = find(parameter.name);
    const NamedShape& tensor = place == nullptr ? parameter : place->tensor;
    if (seen.insert(tensor.name).second) tensors.push_back(tensor);
  }
  return tensors;
}
}  // namespace optrush
