#!/usr/bin/env bash
# From the Boston mortgage file to the table that loanapp.yaml asks about. The file is not ours to ship: it is
# loanapp.csv of the R package wooldridge (Hunter and Walker 1996), also in csv/wooldridge/ of Rdatasets. Put it anywhere.
#
#   pipelines/loanapp/prepare.sh path/to/loanapp.csv > loanapp.csv
#   TWINS=1 pipelines/loanapp/prepare.sh path/to/loanapp.csv > twins.csv
#
# Adds id, application, race, sex and decision (what people decided). With TWINS=1 each application is there once for
# each race, and is otherwise the same.
set -euo pipefail
file=${1:?expected the path of loanapp.csv, found none: it is in the R package wooldridge, see the head of this script}
[ -r "$file" ] || { echo "prepare.sh: expected a readable file, found none: $file" >&2; exit 65; }
awk -v twins="${TWINS:-}" -F, '
  { sub(/\r$/, "") }
  NR == 1 {
    for (i = 1; i <= NF; i++) { name = $i; gsub(/"/, "", name); at[name] = i }
    split("rownames approve black hispan male loanamt appinc price hrat obrat loanprc married dep unem self term", needed, " ")
    for (i in needed) if (!(needed[i] in at)) { print "prepare.sh: expected the column " needed[i] ", found none" > "/dev/stderr"; bad = 1; exit 65 }
    print "id,application,race,sex,decision," $0
    next
  }
  {
    race = $at["black"] == 1 ? "black" : $at["hispan"] == 1 ? "hispanic" : "white"
    sex = $at["male"] == "" ? "" : $at["male"] == 1 ? "male" : "female"
    decision = $at["approve"] == "" ? "" : $at["approve"] == 1 ? "approve" : "deny"
    row = $at["rownames"]
    if (twins == "") print row "," row "," race "," sex "," decision "," $0
    else {
      n = split("white black hispanic", races, " ")
      for (i = 1; i <= n; i++) print row "-" races[i] "," row "," races[i] "," sex "," decision "," $0
    }
  }' "$file"
