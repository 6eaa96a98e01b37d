# SPDX-License-Identifier: Apache-2.0
# LibTorch from the PyPI wheel, found without find_package(Torch), which stops
# on a CUDA wheel where no CUDA toolkit is. Installed too: triaxConfig.cmake
# includes it.

# Sets TRIAX_TORCH_DIR, the wheel's torch folder, where it is not set: the first
# that matches a pattern, else the one python3 knows. Sets TRIAX_TORCH_VERSION,
# and TRIAX_TORCH_PROBLEM to what is wrong with it, or to nothing.
macro(triax_find_torch)
  set(TRIAX_TORCH_PROBLEM "")
  if(NOT TRIAX_TORCH_DIR)
    file(GLOB triax_candidates ${ARGV})
    if(NOT triax_candidates)
      execute_process(
        COMMAND python3 -c "import importlib.util as u, pathlib as p; s = u.find_spec('torch'); print(p.Path(s.origin).parent if s else '')"
        OUTPUT_VARIABLE triax_candidates OUTPUT_STRIP_TRAILING_WHITESPACE)
    endif()
    if(triax_candidates)
      list(GET triax_candidates 0 TRIAX_TORCH_DIR)
    endif()
  endif()
  if(NOT EXISTS "${TRIAX_TORCH_DIR}/lib/libtorch_cpu.so")
    set(TRIAX_TORCH_PROBLEM "LibTorch was not found")
  else()
    file(STRINGS "${TRIAX_TORCH_DIR}/version.py" TRIAX_TORCH_VERSION
         REGEX "^__version__ = ")
    string(REGEX REPLACE ".*'([^']+)'.*" "\\1" TRIAX_TORCH_VERSION
           "${TRIAX_TORCH_VERSION}")
    if(NOT TRIAX_TORCH_VERSION MATCHES "^2\\.13\\.")
      string(CONCAT TRIAX_TORCH_PROBLEM
        "LibTorch ${TRIAX_TORCH_VERSION} in ${TRIAX_TORCH_DIR}: triax needs "
        "2.13 (its ABI changes with each minor version)")
    endif()
  endif()
endmacro()

# Gives an INTERFACE target what a program needs to use LibTorch.
function(triax_describe_torch target)
  target_include_directories(${target} SYSTEM INTERFACE
    ${TRIAX_TORCH_DIR}/include
    ${TRIAX_TORCH_DIR}/include/torch/csrc/api/include)
  # Without NDEBUG RecordFunction has another layout than the wheel's.
  target_compile_definitions(${target} INTERFACE NDEBUG)
  # A CUDA wheel's libraries name others that only exist with a toolkit.
  target_link_options(${target} INTERFACE
    -Wl,--unresolved-symbols=ignore-in-shared-libs
    -Wl,-rpath,${TRIAX_TORCH_DIR}/lib -Wl,--no-as-needed)
  target_link_libraries(${target} INTERFACE
    ${TRIAX_TORCH_DIR}/lib/libtorch_cpu.so ${TRIAX_TORCH_DIR}/lib/libc10.so
    Threads::Threads)
endfunction()
