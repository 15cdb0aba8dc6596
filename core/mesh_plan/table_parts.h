#pragma once
#include <string>
#include <vector>

#include "mesh_plan/mesh_plan.h"
#include "report/document.h"

namespace optrush {
enum class TableForm : uint8_t { text, markdown };

// What the tables of plan-mesh share.
std::string count(double number);
std::string drawn(const Table&, TableForm);
std::string bullets(const std::vector<std::string>& lines, TableForm);
std::string heading(const std::string& title, TableForm);
/// "2 x 16": sequences of a micro-batch, micro-batches of a step.
std::string batch_text(const Mix&);
/// "dp 14.2 GiB network, tp 120 GiB node".
std::string sends_text(const MixCost&);
std::string mfu_text(double mfu);
/// What an estimate takes for granted, each with its source.
std::vector<std::string> assumptions(const TrainingProblem&, const Hardware&);

Json mix_json(const Mix&);
Json planned_json(const PlannedMix&);
}  // namespace optrush
