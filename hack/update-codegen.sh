#!/usr/bin/env bash
# Regenerates everything that is generated: pkg/generated, the zz_generated files next to the types, and manifests.
# What to generate is read from the tags in pkg/apis: a new kind or group needs no change here.
#
# It is an error if a type breaks an API rule. For an exception, UPDATE_API_VIOLATIONS=true adds it to hack/api-violations.list.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh
module=millwright.dev
license=$PWD/hack/boilerplate.go.txt
export LC_ALL=C # what is generated is sorted the same way for everyone
export GOBIN=$PWD/bin/codegen
mkdir -p "$GOBIN"

go mod download k8s.io/code-generator # go list names no folder before it is there
codegen=$(go list -m -f '{{.Dir}}' k8s.io/code-generator)
# shellcheck source=/dev/null
source "$codegen/kube_codegen.sh"
# It lists what lives in the module cache and must not be written to; core/v1, which we read too, is not in the list.
KUBE_CODEGEN_READONLY_PKGS+=(k8s.io/api/core/v1)

kube::codegen::gen_helpers --boilerplate "$license" ./pkg/apis
kube::codegen::gen_register --boilerplate "$license" ./pkg/apis

# core/v1 comes along because a template is a PodTemplateSpec: the models must be closed under reference.
kube::codegen::gen_openapi --boilerplate "$license" \
  --output-dir ./pkg/generated/openapi --output-pkg "$module/pkg/generated/openapi" \
  --output-model-name-file zz_generated.model_name.go \
  --extra-pkgs k8s.io/api/core/v1 --extra-pkgs k8s.io/apimachinery/pkg/util/intstr \
  --report-filename ./hack/api-violations.list ${UPDATE_API_VIOLATIONS:+--update-report} \
  ./pkg/apis

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Clients for every kind tagged +genclient. kube::codegen::gen_client would do, but for two things: a kind named like a
# keyword of Go (Switch), and a version named like none of Kubernetes (v1alpha).
mapfile -t dirs < <(grep -rl --include='*.go' '^// +genclient$' pkg/apis | xargs -n 1 dirname | sort -u)
packages=("${dirs[@]/#/$module/}")
inputs=("${dirs[@]/#pkg\/apis\//--input=}")
header=(--go-header-file "$license")

# The types of core/v1 that ours embed have apply configurations in client-go.
externals=
for type in PodTemplateSpec EnvVar ResourceRequirements LocalObjectReference; do
  externals+=${externals:+,}k8s.io/api/core/v1.$type:k8s.io/client-go/applyconfigurations/core/v1
done

echo "Generating clients for ${#dirs[@]} API versions"
go install ./hack/generators/applyconfiguration-gen ./hack/generators/client-gen k8s.io/code-generator/cmd/{lister,informer}-gen
rm -rf pkg/generated/{applyconfiguration,clientset,listers,informers}
# The apply configurations carry the models, so that the fake clientset can track field managers for our kinds too.
go run ./hack/models-schema >"$work/models.json"
"$GOBIN/applyconfiguration-gen" "${header[@]}" --openapi-schema "$work/models.json" --external-applyconfigurations "$externals" \
  --output-dir pkg/generated/applyconfiguration --output-pkg "$module/pkg/generated/applyconfiguration" "${packages[@]}"
"$GOBIN/client-gen" "${header[@]}" --clientset-name versioned --apply-configuration-package "$module/pkg/generated/applyconfiguration" \
  --output-dir pkg/generated/clientset --output-pkg "$module/pkg/generated/clientset" --input-base "$PWD/pkg/apis" "${inputs[@]}"
"$GOBIN/lister-gen" "${header[@]}" --output-dir pkg/generated/listers --output-pkg "$module/pkg/generated/listers" "${packages[@]}"
"$GOBIN/informer-gen" "${header[@]}" --output-dir pkg/generated/informers --output-pkg "$module/pkg/generated/informers" \
  --versioned-clientset-package "$module/pkg/generated/clientset/versioned" --listers-package "$module/pkg/generated/listers" "${packages[@]}"

hack/update-manifests.sh
