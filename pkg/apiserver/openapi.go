// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"maps"
	"strings"

	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/common"

	generated "millwright.dev/pkg/generated/openapi"
)

// servedModels are the prefixes of the names of the models that are served.
var servedModels = []string{
	"dev.millwright.pkg.apis.farm.",
	"io.k8s.apimachinery.",
}

// addOpenAPI describes the API for kubectl explain, for server-side apply, and for generated clients.
func addOpenAPI(config *genericapiserver.Config) {
	namer := openapi.NewDefinitionNamer(publicScheme())
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(models, namer)
	config.OpenAPIConfig.Info.Title = "Farm"
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(models, namer)
	config.OpenAPIV3Config.Info.Title = "Farm"
}

// models are those of the farm: the generated ones are of all our kinds, and of Pods and the like, which would stay in memory.
func models(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	all := generated.GetOpenAPIDefinitions(ref)
	maps.DeleteFunc(all, func(name string, _ common.OpenAPIDefinition) bool {
		for _, prefix := range servedModels {
			if strings.HasPrefix(name, prefix) {
				return false
			}
		}
		return true
	})
	return all
}
