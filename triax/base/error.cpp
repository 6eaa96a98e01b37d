// SPDX-License-Identifier: Apache-2.0
#include "triax/base/error.h"

#include <cstring>

namespace triax::detail {

void fail_check(const char* file,
                int line,
                const char* condition,
                const std::string& message) {
  const char* name = std::strstr(file, "triax/");
  throw std::logic_error(join("internal error at ",
                              name ? name : file,
                              ":",
                              line,
                              ": ",
                              condition,
                              message.empty() ? "" : ": ",
                              message,
                              " (a defect of triax, please report it)"));
}

}  // namespace triax::detail
