#!/usr/bin/env bash
# verify-ansible.sh: the example role of hack/ansible is one that Ansible can read. Without Ansible it is installed from Debian's packages when this
# is root; a developer without both is told so and let through, under CI=true that is a failure.
set -euo pipefail
cd "$(dirname "$0")/ansible"
# Debian's, whatever else lies in front of it on the path.
ansible=/usr/bin/ansible-playbook
if [ ! -x "$ansible" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing ansible-core (once; half a minute)" >&2
  apt-get update -q >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends ansible-core >/dev/null
fi
if [ ! -x "$ansible" ]; then
  [ "${CI:-}" != true ] || { echo "ansible-playbook is missing: apt-get install ansible-core" >&2; exit 1; }
  echo "hack/ansible was not checked: apt-get install ansible-core" >&2
  exit 0
fi
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export ANSIBLE_LOCAL_TEMP=$home ANSIBLE_NOCOWS=1 ANSIBLE_LOCALHOST_WARNING=false ANSIBLE_ROLES_PATH=roles
for state in present absent; do
  "$ansible" -i inventory.example.ini --syntax-check -e "wmcb_state=$state" site.yml >/dev/null
done
# A syntax check does not open files that are included while a play runs.
for tasks in roles/wmcb/tasks/*.yml; do
  printf -- '- hosts: windows\n  gather_facts: false\n  roles:\n    - name: wmcb\n      tasks_from: %s\n' "$(basename "$tasks")" >"$home/one.yml"
  "$ansible" -i inventory.example.ini --syntax-check "$home/one.yml" >/dev/null || { echo "$tasks is not in order" >&2; exit 1; }
done
# What the role does on a machine that is new, one that is a node already, and one that shall be none any more: line by line as written down.
# UPDATE=1 writes it anew.
play() {
  echo "# $*"
  : >"$home/log"
  PATH=$PWD/testdata/bin:$PATH WMCB_LOG=$home/log WMCB_PHASE=$1 ANSIBLE_EXECUTABLE=$PWD/testdata/cmd ANSIBLE_REMOTE_TEMP=$home \
    "$ansible" -i inventory.example.ini -l win-b -e ansible_connection=local -e ansible_shell_type=sh -e ansible_python_interpreter=/usr/bin/python3 \
    -e ansible_ssh_private_key_file=/keys/windows -e "wmcb_state=$2" site.yml >"$home/out" 2>&1 || { cat "$home/out" >&2; return 1; }
  cat "$home/log"
}
{ play Idle present; play InSync present; play InSync absent; } >"$home/commands"
[ -z "${UPDATE:-}" ] || cp "$home/commands" testdata/commands.txt
diff testdata/commands.txt "$home/commands" || { echo "the role does something else than hack/ansible/testdata/commands.txt says" >&2; exit 1; }
echo "hack/ansible is in order"
