// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/cmake/test_pch.h"
#include "tools/cmake/torch_pch.h"
