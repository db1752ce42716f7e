#!/usr/bin/env bash
# The bootstrapper's end-to-end run in an OpenShift cluster, as a Job. docs/testing.md explains it.
#
#   hack/run-wmcb-ci-e2e-test.sh [-skipVMSetup] [other flags of the test binary]
#
# ARTIFACT_DIR                  folder for logs, objects and the machine's journal; made if it is missing
# KUBE_SSH_KEY_PATH             private key that logs in to the Windows machines
# WMCB_IMAGE                    image of Dockerfile.tools, in a registry that the cluster can pull from
# AWS_SHARED_CREDENTIALS_FILE   AWS credentials, to find Windows' image; not needed with -skipVMSetup or WINDOWS_AMI
# WINDOWS_AMI                   optional: the image of the Windows machines
# KUBECONFIG                    the cluster, as kubectl takes it
set -euo pipefail
cd "$(dirname "$0")/.."

namespace=wmcb-e2e
manifests=hack/wmcb-ci-e2e
# deadline is how long the Job may take, in seconds; 12 minutes are a new machine's.
deadline=3600

fail() {
	echo "run-wmcb-ci-e2e-test: $*" >&2
	exit 1
}

# check names everything that is missing at once, before anything is changed.
check() {
	local missing=() name
	for name in ARTIFACT_DIR KUBE_SSH_KEY_PATH WMCB_IMAGE; do
		[ -n "${!name:-}" ] || missing+=("$name is not set")
	done
	[ -z "${KUBE_SSH_KEY_PATH:-}" ] || [ -r "$KUBE_SSH_KEY_PATH" ] || missing+=("KUBE_SSH_KEY_PATH: $KUBE_SSH_KEY_PATH cannot be read")
	command -v kubectl >/dev/null || missing+=("kubectl is not installed")
	if [ "$setup" = yes ] && [ -z "${WINDOWS_AMI:-}" ]; then
		if [ -z "${AWS_SHARED_CREDENTIALS_FILE:-}" ] || [ ! -r "$AWS_SHARED_CREDENTIALS_FILE" ]; then
			missing+=("AWS_SHARED_CREDENTIALS_FILE does not name a file that can be read; or set WINDOWS_AMI, or use -skipVMSetup")
		fi
		command -v aws >/dev/null || missing+=("aws is not installed; or set WINDOWS_AMI, or use -skipVMSetup")
	fi
	[ ${#missing[@]} -eq 0 ] || fail "$(printf '\n  %s' "${missing[@]}")"
}

# arguments reads the flags for the test binary. They become lines of YAML, so that only plain words are taken.
arguments() {
	setup=yes extra=()
	local word
	for word in "$@"; do
		[[ $word =~ ^-[A-Za-z0-9._=/:,-]+$ ]] || fail "argument $word is not a plain flag"
		[ "$word" != -skipVMSetup ] || setup=no
		extra+=("$word")
	done
}

# windows_ami is the newest image of Windows Server 2022 in the cluster's region.
windows_ami() {
	local region
	region=$(kubectl get infrastructure cluster -o 'jsonpath={.status.platformStatus.aws.region}')
	[ -n "$region" ] || fail "the cluster is not on AWS: set WINDOWS_AMI, or use -skipVMSetup"
	aws ssm get-parameter --region "$region" --output text --query Parameter.Value \
		--name /aws/service/ami-windows-latest/Windows_Server-2022-English-Full-Base
}

# job prints the Job with its image and arguments.
job() {
	local line arg
	while IFS= read -r line; do
		printf '%s\n' "${line/WMCB_IMAGE/$WMCB_IMAGE}"
		if [[ $line == *'- -artifacts-to-log' ]]; then
			for arg in ${extra[@]+"${extra[@]}"}; do printf '        - %s\n' "$arg"; done
		fi
	done <"$manifests/job.yaml"
}

# ended waits for the Job and answers with its condition.
ended() {
	local status end=$((SECONDS + deadline))
	while [ "$SECONDS" -lt "$end" ]; do
		status=$(kubectl get job wmcb-e2e -n "$namespace" -o 'jsonpath={range .status.conditions[?(@.status=="True")]}{.type} {end}')
		case " $status " in
		*' Complete '*) echo Complete; return ;;
		*' Failed '*) echo Failed; return ;;
		esac
		sleep "${POLL_SECONDS:-5}"
	done
	echo "not ended after $deadline s"
}

# collect takes the artifacts out of the log, where they stand between two lines as a base64 text, and keeps the rest of it.
collect() {
	kubectl logs job/wmcb-e2e -n "$namespace" >"$ARTIFACT_DIR/wmcb-e2e.raw"
	sed '/^-----BEGIN ARTIFACTS-----$/,/^-----END ARTIFACTS-----$/d' "$ARTIFACT_DIR/wmcb-e2e.raw" | tee "$ARTIFACT_DIR/wmcb-e2e.log"
	if grep -q '^-----BEGIN ARTIFACTS-----$' "$ARTIFACT_DIR/wmcb-e2e.raw"; then
		sed -n '/^-----BEGIN ARTIFACTS-----$/,/^-----END ARTIFACTS-----$/p' "$ARTIFACT_DIR/wmcb-e2e.raw" | sed '1d;$d' | base64 -d |
			tar -xzf - -C "$ARTIFACT_DIR"
	fi
	rm "$ARTIFACT_DIR/wmcb-e2e.raw"
	kubectl get job,pod -n "$namespace" -o yaml >"$ARTIFACT_DIR/job.yaml"
}

# cleanup removes everything that was made in the cluster.
cleanup() {
	kubectl delete --ignore-not-found --wait=false -f "$manifests/access.yaml" >/dev/null || true
}

arguments "$@"
check
mkdir -p "$ARTIFACT_DIR"
if [ "$setup" = yes ]; then
	extra+=("-ami=${WINDOWS_AMI:-$(windows_ami)}")
fi
trap cleanup EXIT
kubectl apply -f "$manifests/access.yaml"
kubectl create secret generic wmcb-e2e-ssh -n "$namespace" --from-file=private-key="$KUBE_SSH_KEY_PATH" --dry-run=client -o yaml | kubectl apply -f -
kubectl delete job wmcb-e2e -n "$namespace" --ignore-not-found
job | kubectl apply -f -
result=$(ended)
collect
[ "$result" = Complete ] || fail "the Job is $result; the logs are in $ARTIFACT_DIR"
echo "the end-to-end run has passed; artifacts are in $ARTIFACT_DIR"
