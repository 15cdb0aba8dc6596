#include "report/compare.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/spec_json.h"
#include "report/document.h"
#include "report/format.h"
#include "report/problem.h"
#include "report/text_table.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
struct Side {
  Stored stored;
  Analysis analysis;

  explicit Side(const fs::path& folder) : stored(load_report(folder)), analysis(analyze(stored)) {}
  const Row* row(const std::string& name) const {
    const auto it = std::ranges::find(analysis.rows, name, &Row::name);
    return it == analysis.rows.end() ? nullptr : &*it;
  }
};

using Facts = std::map<std::string, std::string>;

/// Every leaf by its path: "cpu.name".
void flatten(const std::string& path, const Json& json, Facts& facts) {
  if (json.is_object())
    for (const auto& [key, value] : json.items())
      flatten(path.empty() ? key : path + "." + key, value, facts);
  else if (json.is_array() && !json.empty() && json.front().is_structured())
    for (size_t i = 0; i < json.size(); ++i) flatten(path + "[" + std::to_string(i) + "]", json[i], facts);
  else
    facts[path] = json.is_string() ? json.get<std::string>() : json.dump();
}

/// The machine, and the spec that every rung starts from.
Facts facts_of(const Side& side) {
  Facts facts;
  flatten("", side.stored.context, facts);
  const Experiment& experiment = side.stored.experiment;
  flatten("base", to_json(experiment.base), facts);
  facts["rounds"] = std::to_string(experiment.rounds);
  facts["script"] = experiment.script;
  facts["script_sha256"] = experiment.script_sha256;
  for (const auto& run : side.stored.runs)
    for (const auto& plugin : run.result.plugins) {
      const std::string name = plugin.at("name"), version = plugin.at("version"),
                        sha256 = plugin.at("sha256");
      facts["plugin " + name] = version + ", sha256 " + sha256;
    }
  return facts;
}

Table differing_context(const Side& a, const Side& b) {
  Table table{{{"context"}, {"A"}, {"B"}}, {}};
  const Facts left = facts_of(a), right = facts_of(b);
  std::set<std::string> keys;
  for (const auto& facts : {left, right})
    for (const auto& [key, value] : facts) keys.insert(key);
  const auto value = [](const Facts& facts, const std::string& key) {
    const auto it = facts.find(key);
    return it == facts.end() ? std::string(kUnknown) : it->second;
  };
  for (const auto& key : keys)
    if (value(left, key) != value(right, key))
      table.rows.push_back({key, value(left, key), value(right, key)});
  return table;
}

std::string status_of(const Row* row) {
  return row ? std::string(to_string(row->status)) : std::string(kUnknown);
}

std::string speed_of(const Row* row) {
  return row ? or_unknown(row->tokens_per_second, grouped) : std::string(kUnknown);
}

std::string memory_of(const Row* row) {
  return row ? or_unknown(row->memory.allocated, bytes) : std::string(kUnknown);
}

std::vector<std::string> line_of(const std::string& name, const Side& a, const Side& b,
                                 std::string& remarks) {
  const Row *left = a.row(name), *right = b.row(name);
  std::string speed(kUnknown), memory(kUnknown);
  if (left && right && left->ok() && right->ok()) {
    if (!left->samples.empty() && !right->samples.empty())
      speed = ratio_text(unpaired_ratio(right->samples, left->samples));
    if (left->memory.allocated.value_or(0) > 0 && right->memory.allocated)
      memory = change(*right->memory.allocated / *left->memory.allocated);
    const auto differs = difference_of_problems(b.stored, right->variant, a.stored, left->variant);
    if (!differs.empty()) {
      speed += " †";
      remarks += "† " + name + ": another problem in B: " + differs + "\n";
    }
  }
  return {name,   speed_of(left),  speed_of(right), speed, memory_of(left), memory_of(right),
          memory, status_of(left), status_of(right)};
}
}  // namespace

std::string compare_reports(const fs::path& a_folder, const fs::path& b_folder) {
  const Side a(a_folder), b(b_folder);
  std::string text = "A: " + a_folder.string() + "\nB: " + b_folder.string() + "\n\n";
  const Table context = differing_context(a, b);
  text += (context.rows.empty() ? "the context is the same\n" : text_table(context)) + "\n";
  Table rungs{{{"rung"},
               {"A tokens/s", true},
               {"B tokens/s", true},
               {"B over A", true},
               {"A memory", true},
               {"B memory", true},
               {"B over A", true},
               {"A"},
               {"B"}},
              {}};
  std::string remarks;
  for (const Row& row : a.analysis.rows) rungs.rows.push_back(line_of(row.name, a, b, remarks));
  for (const Row& row : b.analysis.rows)
    if (!a.row(row.name)) rungs.rows.push_back(line_of(row.name, a, b, remarks));
  return text + text_table(rungs) + remarks;
}
}  // namespace optrush
