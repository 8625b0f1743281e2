package main

import (
	"encoding/json"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const groupVersion = "e2e.millwright.dev/v1"

// extension extends the API: it is a webhook that denies objects with the label denied, and a server of the kind Greeting.
func extension() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /admit", func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "not a review", http.StatusBadRequest)
			return
		}
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(review.Request.Object.Raw, &object); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, denied := object.Labels["denied"]
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: !denied}
		if denied {
			review.Response.Result = &metav1.Status{Message: "it has the label denied"}
		}
		answer(w, review)
	})
	mux.HandleFunc("GET /apis/"+groupVersion, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: groupVersion,
			APIResources: []metav1.APIResource{{Name: "greetings", Kind: "Greeting", Verbs: []string{"list"}}},
		})
	})
	// The one object is named after who asks, whom the aggregation layer vouches for.
	mux.HandleFunc("GET /apis/"+groupVersion+"/greetings", func(w http.ResponseWriter, r *http.Request) {
		list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "GreetingList", APIVersion: groupVersion}}
		list.Items = []metav1.PartialObjectMetadata{{
			TypeMeta:   metav1.TypeMeta{Kind: "Greeting", APIVersion: groupVersion},
			ObjectMeta: metav1.ObjectMeta{Name: "hello-" + r.Header.Get("X-Remote-User")},
		}}
		answer(w, list)
	})
	return mux
}

func answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}
