# Writes descriptions that `dlflow` prints of itself, as files to install:
#   cmake -DDLFLOW=bin/dlflow -DFOLDER=described -DOBJDUMP=/usr/bin/objdump -P describe.cmake
# FOLDER/man: a man page for each verb and each program that was built. FOLDER/completions: for bash, zsh and fish, under the names that these shells look for.
# FOLDER/schemas: of workflows, profiles and model files. FOLDER/LIBRARIES: the shared libraries that each program expects.

function(says file)
  execute_process(COMMAND ${DLFLOW} ${ARGN} OUTPUT_FILE ${FOLDER}/${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER}/completions ${FOLDER}/schemas)
execute_process(COMMAND ${DLFLOW} man-pages ${FOLDER}/man ${CMAKE_CURRENT_LIST_DIR}/../docs/user/environment.md COMMAND_ERROR_IS_FATAL ANY)
says(completions/dlflow completion bash)
says(completions/_dlflow completion zsh)
says(completions/dlflow.fish completion fish)
says(schemas/workflow.schema.json schema)
says(schemas/profile.schema.json schema profile)
says(schemas/model.schema.json schema model)

get_filename_component(programs ${DLFLOW} DIRECTORY)
foreach(program dlflow-train dlflow-evaluate)  # dlflow-predict.1 is the page of the verb
  if(EXISTS ${programs}/${program})
    execute_process(COMMAND ${programs}/${program} --man-page OUTPUT_FILE ${FOLDER}/man/${program}.1 COMMAND_ERROR_IS_FATAL ANY)
  endif()
endforeach()

set(text "The shared libraries that each program needs. In the tarball, lib/dlflow has all but those of glibc and MPI.\n\n")
foreach(program bin/dlflow bin/dlflow-train bin/dlflow-evaluate bin/dlflow-predict bin/libdlflow_cuda.so lib/dlflow/libdlflow_mpi_40.so lib/dlflow/libdlflow_mpi_12.so)
  if(EXISTS ${programs}/../${program})
    execute_process(COMMAND ${OBJDUMP} -p ${programs}/../${program} OUTPUT_VARIABLE header COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "NEEDED +[^\n]+" needed "${header}")
    list(TRANSFORM needed REPLACE "NEEDED +" "")
    list(SORT needed)
    list(JOIN needed ", " names)
    if(NOT names)
      set(names none)
    endif()
    string(APPEND text "${program}: ${names}\n")
  endif()
endforeach()
file(WRITE ${FOLDER}/LIBRARIES ${text})
file(TOUCH ${FOLDER}/done)
