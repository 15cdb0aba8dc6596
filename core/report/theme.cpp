#include "report/theme.h"

namespace optrush {
namespace {
constexpr const char* kBackground = "#ffffff";
constexpr const char* kDarkBackground = "#0d1117";

/// The rule that shows `light` as `dark`, wherever it fills or strokes.
std::string exchange(const std::string& light, const std::string& dark) {
  return "svg.marks [fill=\"" + light + "\"]{fill:" + dark + "}svg.marks [stroke=\"" + light +
         "\"]{stroke:" + dark + "}";
}
}  // namespace

Json chart_config() {
  return {{"background", nullptr},
          {"font", "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"},
          {"padding", 12},
          {"view", {{"stroke", nullptr}}},
          {"title",
           {{"color", kText},
            {"subtitleColor", kMuted},
            {"anchor", "start"},
            {"frame", "bounds"},
            {"fontSize", 15},
            {"subtitleFontSize", 12},
            {"subtitlePadding", 4},
            {"offset", 14}}},
          {"axis",
           {{"labelColor", kText},
            {"titleColor", kMuted},
            {"gridColor", kGrid},
            {"domainColor", kGrid},
            {"tickColor", kGrid},
            {"labelFontSize", 12},
            {"titleFontSize", 12},
            {"titleFontWeight", "normal"}}},
          // Above the axis: beside it, labels of a wider font would run into it.
          {"axisY",
           {{"titleAngle", 0},
            {"titleAlign", "left"},
            {"titleAnchor", "end"},
            {"titleBaseline", "bottom"},
            {"titleX", 0},
            {"titleY", -8}}},
          {"header", {{"labelColor", kText}, {"labelFontSize", 12}, {"labelLimit", 300}}},
          {"legend",
           {{"labelColor", kText},
            {"titleColor", kMuted},
            {"labelFontSize", 12},
            {"titleFontSize", 12},
            {"titleFontWeight", "normal"}}},
          {"text", {{"fontSize", 12}}}};
}

std::string chart_css() {
  return std::string("svg.marks{background:") + kBackground +
         "}@media (prefers-color-scheme: dark){svg.marks{background:" + kDarkBackground + "}" +
         exchange(kText, "#e6edf3") + exchange(kMuted, "#9198a1") + exchange(kGrid, "#30363d") +
         exchange(kBad, "#ff7b72") + "}";
}
}  // namespace optrush
