// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace triax {

/// UTF-8's, which a text file may begin with.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace triax
