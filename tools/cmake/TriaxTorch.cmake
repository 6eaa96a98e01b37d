# SPDX-License-Identifier: Apache-2.0
# LibTorch for this tree: the target triax_torch.

set(TRIAX_TORCH_DIR "" CACHE PATH "the wheel's torch folder")
include(TriaxFindTorch)
triax_find_torch(${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
if(TRIAX_TORCH_PROBLEM)
  message(FATAL_ERROR "${TRIAX_TORCH_PROBLEM}; run `make setup`, or set "
          "TRIAX_TORCH_DIR to the torch folder of the wheel torch==2.13.*")
endif()
message(STATUS "LibTorch ${TRIAX_TORCH_VERSION} in ${TRIAX_TORCH_DIR}")
add_library(triax_torch INTERFACE)
triax_describe_torch(triax_torch)

# One precompiled header for every target that uses LibTorch.
triax_add_pch(triax_torch_pch torch_pch.h)
target_link_libraries(triax_torch_pch PUBLIC triax_torch)

function(triax_use_torch target)
  # Whoever uses an installed triax has LibTorch from triaxConfig.cmake.
  target_link_libraries(${target} PUBLIC
    $<BUILD_INTERFACE:triax_torch> $<INSTALL_INTERFACE:triax::torch>)
  target_precompile_headers(${target} REUSE_FROM triax_torch_pch)
  target_compile_options(${target} PRIVATE -fpch-preprocess)
endfunction()
