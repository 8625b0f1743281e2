// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"

	"github.com/google/go-cmp/cmp"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

var listing = map[string]func(*farm){
	"a list has what there is, in the order of names": func(f *farm) {
		empty := f.mustList(storage.ListOptions{})
		if empty.Items == nil || len(empty.Items) != 0 || empty.ResourceVersion == "" || empty.ResourceVersion == "0" {
			f.Errorf("an empty list is %+v", empty)
		}
		b, a := f.create("b"), f.create("a")
		list := f.mustList(storage.ListOptions{})
		if diff := cmp.Diff([]farmv1alpha.Llama{*a, *b}, list.Items); diff != "" {
			f.Errorf("-created +listed:\n%s", diff)
		}
		if number(list.ResourceVersion) < number(a.ResourceVersion) || list.Continue != "" || list.RemainingItemCount != nil {
			f.Errorf("the list says %+v", list.ListMeta)
		}
	},
	"a list of all namespaces has each": func(f *farm) {
		other := &farm{T: f.T, Subject: f.Subject, ctx: f.ctx, namespace: f.Namespace(f.T)}
		want := []farmv1alpha.Llama{*f.create("a"), *other.create("a")}
		list := &farmv1alpha.LlamaList{}
		if err := f.GetList(f.ctx, "/llamas", storage.ListOptions{Recursive: true, Predicate: everything()}, list); err != nil {
			f.Fatal(err)
		}
		for _, llama := range want {
			found := slices.IndexFunc(list.Items, func(listed farmv1alpha.Llama) bool { return cmp.Equal(listed, llama) })
			if found < 0 {
				f.Errorf("%s/%s is missing", llama.Namespace, llama.Name)
			}
		}
	},
	"one name can be listed": func(f *farm) {
		f.create("a")
		f.create("ab")
		for name, want := range map[string]int{"a": 1, "b": 0} {
			list := &farmv1alpha.LlamaList{}
			err := f.GetList(f.ctx, f.key(name), storage.ListOptions{Predicate: everything()}, list)
			if err != nil || len(list.Items) != want || list.Items == nil || number(list.ResourceVersion) == 0 {
				f.Errorf("%s: %v %+v, %v", name, names(list), list.ListMeta, err)
			}
		}
		list := &farmv1alpha.LlamaList{}
		if err := f.GetList(f.ctx, f.key("a"), storage.ListOptions{Predicate: selectedBy("", "size=big")}, list); err != nil || len(list.Items) != 0 {
			f.Errorf("a small one was listed as big: %v, %v", names(list), err)
		}
	},
	"selectors select": func(f *farm) {
		f.create("suri", func(llama *farmv1alpha.Llama) { llama.Labels = map[string]string{"breed": "suri"} })
		f.create("big-suri", func(llama *farmv1alpha.Llama) {
			llama.Labels, llama.Spec.Height = map[string]string{"breed": "suri"}, 2
		})
		f.create("big", func(llama *farmv1alpha.Llama) { llama.Spec.Height = 2 })
		f.create("other")
		for _, test := range []struct {
			label, field string
			want         []string
		}{
			{"breed=suri", "", []string{"big-suri", "suri"}},
			{"breed notin (suri)", "", []string{"big", "other"}},
			{"!breed", "metadata.name!=big", []string{"other"}},
			{"", "metadata.name=big", []string{"big"}},
			{"", "metadata.namespace=" + f.namespace + ",size=big", []string{"big", "big-suri"}},
			{"", "metadata.namespace=another", []string{}},
			{"breed=suri", "size=big", []string{"big-suri"}},
			{"breed=none", "", []string{}},
		} {
			list := f.mustList(storage.ListOptions{Predicate: selectedBy(test.label, test.field)})
			if diff := cmp.Diff(test.want, names(list)); diff != "" {
				f.Errorf("by %q and %q: -want +got:\n%s", test.label, test.field, diff)
			}
		}
	},
	"the past can be listed": func(f *farm) {
		first := f.create("a")
		second := f.update("a", heavier)
		f.create("b")
		f.remove("a")
		for _, test := range []struct {
			at    string
			match metav1.ResourceVersionMatch
			want  []string
		}{
			{first.ResourceVersion, metav1.ResourceVersionMatchExact, []string{"a" + first.ResourceVersion}},
			{second.ResourceVersion, metav1.ResourceVersionMatchExact, []string{"a" + second.ResourceVersion}},
			{second.ResourceVersion, metav1.ResourceVersionMatchNotOlderThan, nil},
			{second.ResourceVersion, "", nil},
			{"0", metav1.ResourceVersionMatchNotOlderThan, nil},
		} {
			list := f.mustList(storage.ListOptions{ResourceVersion: test.at, ResourceVersionMatch: test.match})
			got := []string{}
			for _, llama := range list.Items {
				got = append(got, llama.Name+llama.ResourceVersion)
			}
			if test.want != nil && (!cmp.Equal(test.want, got) || list.ResourceVersion != test.at) {
				f.Errorf("exactly at %s: %v at %s, want %v", test.at, got, list.ResourceVersion, test.want)
			}
			if test.at != "0" && number(list.ResourceVersion) < number(test.at) {
				f.Errorf("not older than %s is %s", test.at, list.ResourceVersion)
			}
		}
	},
	"the future cannot be listed": func(f *farm) {
		to := later(f.create("a").ResourceVersion)
		for _, match := range []metav1.ResourceVersionMatch{"", metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan} {
			if _, err := f.list(storage.ListOptions{ResourceVersion: to, ResourceVersionMatch: match}); !storage.IsTooLargeResourceVersion(err) {
				f.Errorf("%q: %v", match, err)
			}
		}
		if _, err := f.list(storage.ListOptions{ResourceVersion: "tomorrow",
			ResourceVersionMatch: metav1.ResourceVersionMatchExact}); !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) {
			f.Errorf("no resourceVersion: %v", err)
		}
	},
}

var paging = map[string]func(*farm){
	"pages have all, once, as it was at the first one": func(f *farm) {
		for i := range 7 {
			f.create(fmt.Sprint("llama-", i))
		}
		got, options, remaining := []string{}, storage.ListOptions{}, []int64{4, 1}
		for page := 0; ; page++ {
			options.Predicate.Limit = 3
			list := f.mustList(options)
			if page == 0 {
				options.Predicate.Continue = "" // what follows is of the time of this page
				f.remove("llama-3")
				f.create("llama-30")
				f.update("llama-6", func(llama *farmv1alpha.Llama) { llama.Spec.Height = 2 })
			}
			for _, llama := range list.Items {
				got = append(got, fmt.Sprint(llama.Name, " ", llama.Spec.Height))
			}
			if list.Continue == "" {
				if page != 2 || list.RemainingItemCount != nil {
					f.Errorf("page %d is the last one, and says %+v", page, list.ListMeta)
				}
				break
			}
			if page >= 2 || list.RemainingItemCount == nil || *list.RemainingItemCount != remaining[page] {
				f.Fatalf("page %d says %+v", page, list.ListMeta)
			}
			options.Predicate.Continue = list.Continue
		}
		want := []string{"llama-0 0.5", "llama-1 0.5", "llama-2 0.5", "llama-3 0.5", "llama-4 0.5", "llama-5 0.5", "llama-6 0.5"}
		if diff := cmp.Diff(want, got); diff != "" {
			f.Errorf("-want +got:\n%s", diff)
		}
	},
	"pages have what is selected, and are full": func(f *farm) {
		for i := range 12 {
			f.create(fmt.Sprintf("llama-%02d", i), func(llama *farmv1alpha.Llama) {
				llama.Labels = map[string]string{"third": fmt.Sprint(i % 3)}
				if i%4 == 0 {
					llama.Spec.Height = 2
				}
			})
		}
		for _, test := range []struct {
			predicate storage.SelectionPredicate
			want      [][]string
		}{
			{selectedBy("third=0", ""), [][]string{{"llama-00", "llama-03"}, {"llama-06", "llama-09"}}},
			{selectedBy("", "size=big"), [][]string{{"llama-00", "llama-04"}, {"llama-08"}}},
			{selectedBy("third=0", "size=small"), [][]string{{"llama-03", "llama-06"}, {"llama-09"}}},
			{selectedBy("third=5", ""), [][]string{{}}},
		} {
			got := [][]string{}
			for token := ""; ; {
				test.predicate.Limit, test.predicate.Continue = 2, token
				list := f.mustList(storage.ListOptions{Predicate: test.predicate})
				if len(got) > len(test.want) {
					f.Fatalf("there is always another page: %q", got)
				}
				if list.RemainingItemCount != nil {
					f.Error("it is not known how many more are selected")
				}
				if len(list.Items) != 0 || len(got) == 0 {
					got = append(got, names(list))
				}
				if token = list.Continue; token == "" {
					break
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				f.Errorf("-want +got:\n%s", diff)
			}
		}
	},
	"a token is no token of something else": func(f *farm) {
		f.create("a")
		f.create("b")
		options := storage.ListOptions{}
		options.Predicate.Limit = 1
		options.Predicate.Continue = f.mustList(options).Continue
		options.ResourceVersion = "1"
		if _, err := f.list(options); !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) {
			f.Errorf("with a resourceVersion: %v", err)
		}
		options.ResourceVersion, options.Predicate.Continue = "", "nonsense"
		if _, err := f.list(options); !apierrors.IsBadRequest(err) {
			f.Errorf("nonsense: %v", err)
		}
	},
}
