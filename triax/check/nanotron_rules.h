// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triax/check/foreign_findings.h"

namespace triax {

/// What nanotron refuses as it loads its YAML (dacite is strict, and so are
/// its dataclasses), refuses later, or does otherwise than the config seems to
/// say. In the layout of the package 0.4 its own keys count.
void check_nanotron(ForeignFindings& findings);

// Its parts.
void check_nanotron_keys(ForeignFindings& findings);
void check_nanotron_model(ForeignFindings& findings);
void check_nanotron_training(ForeignFindings& findings);

/// The effect of what config.py asserts in the repository and 0.4 leaves to
/// the model's constructor.
Effect nanotron_assert_effect(const ForeignFindings& findings);

}  // namespace triax
