# SPDX-License-Identifier: Apache-2.0
# cmake --install BUILD --prefix DIR: the two programs, the libraries, the
# headers that a program with triax in it includes, and a CMake package for
# find_package(triax).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# What users include, by folder; with LibTorch, whole folders.
set(TRIAX_PUBLIC_HEADERS
  base/dtype.h base/error.h base/log.h base/machine.h base/units.h
  config/load.h config/run_config.h check/check.h
  comm/board.h comm/fork_ranks.h comm/group.h comm/launch.h comm/local.h
  comm/recorder.h comm/start_ranks.h
  schedule/*.h plan/*.h dataset/*.h)
set(TRIAX_PUBLIC_TORCH_HEADERS
  memory/*.h model/*.h optim/*.h mesh/*.h tensor_parallel/*.h
  pipeline_parallel/*.h data_parallel/*.h train/*.h)

# Takes the debug information out of installed files, named below the prefix.
# Not `cmake --install --strip`, which leaves static libraries as they are.
function(triax_strip_installed)
  if(TRIAX_INSTALL_DEBUG)
    return()
  endif()
  install(CODE "
    foreach(file ${ARGN})
      execute_process(
        COMMAND \"${CMAKE_STRIP}\" --strip-debug
                \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/\${file}\"
        COMMAND_ERROR_IS_FATAL ANY)
    endforeach()")
endfunction()

# Those that match the patterns, and all that they include.
function(triax_public_headers out)
  list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/triax/)
  file(GLOB open RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS ${ARGN})
  set(found "")
  while(open)
    list(POP_FRONT open header)
    if(header IN_LIST found)
      continue()
    endif()
    list(APPEND found ${header})
    file(STRINGS ${CMAKE_SOURCE_DIR}/${header} lines
         REGEX "^#include \"triax/")
    foreach(line ${lines})
      string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" included "${line}")
      list(APPEND open ${included})
    endforeach()
  endwhile()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

function(triax_install)
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/triax)
  set(patterns ${TRIAX_PUBLIC_HEADERS})
  if(TRIAX_TORCH)
    list(APPEND patterns ${TRIAX_PUBLIC_TORCH_HEADERS})
  endif()
  triax_public_headers(headers ${patterns})
  foreach(header ${headers})
    cmake_path(GET header PARENT_PATH folder)
    install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
  endforeach()

  # triax::comm and its like, and triax::triax for all of them.
  add_library(triax_library INTERFACE)
  set_target_properties(triax_library PROPERTIES EXPORT_NAME triax)
  get_property(folders GLOBAL PROPERTY triax_all_folders)
  list(REVERSE folders)
  foreach(folder ${folders})
    set_target_properties(triax_${folder} PROPERTIES EXPORT_NAME ${folder})
    target_link_libraries(triax_library INTERFACE triax_${folder})
    list(APPEND targets triax_${folder})
    list(APPEND installed ${CMAKE_INSTALL_LIBDIR}/libtriax_${folder}.a)
  endforeach()
  install(TARGETS triax_library ${targets} EXPORT triax_targets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT triax_targets FILE triaxTargets.cmake NAMESPACE triax::
          DESTINATION ${package})
  # The launcher looks for libexec/triax-run beside the folder of triax.
  if(TARGET triax)
    install(TARGETS triax RUNTIME DESTINATION bin)
    list(APPEND installed bin/triax)
  endif()
  if(TARGET triax-run)
    set_target_properties(triax-run PROPERTIES
      INSTALL_RPATH ${TRIAX_TORCH_DIR}/lib)
    install(TARGETS triax-run RUNTIME DESTINATION libexec)
    list(APPEND installed libexec/triax-run)
  endif()
  triax_strip_installed(${installed})

  configure_package_config_file(
    ${CMAKE_SOURCE_DIR}/tools/cmake/triaxConfig.cmake.in
    ${CMAKE_BINARY_DIR}/triaxConfig.cmake INSTALL_DESTINATION ${package})
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/triaxConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/triaxConfig.cmake
    ${CMAKE_BINARY_DIR}/triaxConfigVersion.cmake
    ${CMAKE_SOURCE_DIR}/tools/cmake/TriaxFindTorch.cmake
    DESTINATION ${package})
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
endfunction()
