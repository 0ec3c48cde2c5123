"""The query language for jobs: ``status:dead type:mail* -tag:vip attempts:>1 error:"connection refused"``."""
