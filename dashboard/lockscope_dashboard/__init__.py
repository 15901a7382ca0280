"""lockscope_dashboard: the Streamlit lock explorer."""
