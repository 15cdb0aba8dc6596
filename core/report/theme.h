#pragma once
#include <array>
#include <string>

#include "optrush/json.h"

namespace optrush {
// Colours of the charts. A chart is drawn in the light ones; the style sheet exchanges them where the reader
// prefers dark, in an SVG file as well as in the page. The palette is readable on both, and its colours are
// told apart by those who see no red, no green or no blue (six of Okabe and Ito's, a little lighter or
// darker).
inline constexpr const char* kText = "#1f2328";
inline constexpr const char* kMuted = "#59636e";
inline constexpr const char* kGrid = "#d8dee4";
inline constexpr const char* kBad = "#c62828";
inline constexpr std::array<const char*, 6> kPalette = {"#2a78c2", "#e08a00", "#00916a",
                                                        "#cf6fa3", "#58b5ea", "#c94f00"};

/// Vega-Lite "config" of every chart.
Json chart_config();
/// Style sheet that makes the charts follow the reader's theme.
std::string chart_css();
}  // namespace optrush
