#pragma once
#include <array>
#include <string>

#include "optrush/json.h"

namespace optrush {
// Colours of the charts. A chart is drawn in the light ones; the style sheet exchanges them where the reader
// prefers dark, in an SVG file as well as in the page. The palette is readable on both.
inline constexpr const char* kText = "#1f2328";
inline constexpr const char* kMuted = "#59636e";
inline constexpr const char* kGrid = "#d8dee4";
inline constexpr const char* kBad = "#c62828";
inline constexpr std::array<const char*, 10> kPalette = {"#3f7fca", "#e8833a", "#4fa35c", "#b07cc6",
                                                         "#2fa7a0", "#d9a520", "#c96a9b", "#8d7358",
                                                         "#6f7ddb", "#9aa2ab"};

/// Vega-Lite "config" of every chart.
Json chart_config();
/// Style sheet that makes the charts follow the reader's theme.
std::string chart_css();
}  // namespace optrush
