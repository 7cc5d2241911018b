-- For Lmod: `module use PREFIX/share/dlflow/modulefiles`, or a link to this file from a folder of MODULEPATH.
whatis("dlflow: deep-learning pipelines on HPC clusters")
conflict("dlflow")

-- bin and share lie five folders above this file. A copy of this file elsewhere needs their folder here: local prefix = "/software/dlflow"
local prefix = capture("readlink -f '" .. myFileName() .. "'"):match("^(.*)/share/dlflow/modulefiles/")
prepend_path("PATH", prefix .. "/bin")
-- An empty word is the manual pages of the system, and both folders are the system's own, if no variable names any.
prepend_path("MANPATH", prefix .. "/share/man")
append_path("MANPATH", "")
append_path("XDG_DATA_DIRS", "/usr/local/share")
append_path("XDG_DATA_DIRS", "/usr/share")
prepend_path("XDG_DATA_DIRS", prefix .. "/share")

-- The site's choices, see docs/operator/profiles.md and docs/operator/upgrades.md:
--prepend_path("DLFLOW_PROFILES", "/project/site/dlflow/profiles")
--setenv("DLFLOW_PROFILE", "alpha")
--setenv("DLFLOW_HOME", pathJoin(os.getenv("HOME"), ".local/state/dlflow-" .. myModuleVersion()))
